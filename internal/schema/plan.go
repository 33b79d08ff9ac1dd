package schema

import (
	"fmt"
	"slices"
	"strings"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// ClearCache has the streaming nodes of a database read its schema again.
const ClearCache = ".clear database cache streamingingestion schema"

// Step is a command of a plan.
type Step struct {
	Text    string
	Changes []string // what was there and would change, for people; empty: the command makes something new
}

// Plan is the commands that a route lacks for the records of a sample. None of them has
// run.
type Plan struct {
	Route  record.Route
	Sample *Sample
	Steps  []Step
	Notes  []string // for people

	t *Table
}

// NewPlan returns a plan (the commands that a route lacks for the records of the sample s) without
// steps. Plans for routes of the same table share its Table. All of them must be made before Make
// is called on the first, since a column that several of them fill gets a type that fits all.
func NewPlan(of record.Route, t *Table, s *Sample) *Plan {
	if t.seen == nil {
		t.seen = make(map[string][]Field)
	}
	t.seen[key(of)] = append(t.seen[key(of)], s.Fields()...)
	return &Plan{Route: of, Sample: s, t: t}
}

// key returns what routes of one table that share a mapping have in common.
func key(of record.Route) string { return Kind(of.Format) + " " + of.Mapping }

func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

func (p *Plan) step(text string, changes ...string) {
	p.Steps = append(p.Steps, Step{text, changes})
}

// Make adds the steps for table, mapping and streaming policy to the plan, and changes the shared
// Table to what it is after them. It runs none of them. It fails if columns, mappings or policy of
// the table could not be read.
func (p *Plan) Make() error {
	for _, err := range []error{p.t.ColumnsErr, p.t.MappingsErr, p.t.PolicyErr} {
		if err != nil {
			return err
		}
	}
	was := len(p.t.Columns)
	var mapping *Step
	if p.Route.Mapping == "" {
		p.byPosition()
	} else {
		var err error
		if mapping, err = p.mapped(); err != nil {
			return err
		}
	}
	p.table(p.t.Columns[was:])
	if mapping != nil {
		p.Steps = append(p.Steps, *mapping)
	}
	if n := p.Sample.Others; n > 0 {
		p.note("the header of %s is not that of the newest file, whose order was taken", units.Counted(n, "file"))
	}
	p.policy()
	return nil
}

// fields returns the fields of the sample. Their types also hold what other routes to the same
// mapping have for the same field.
func (p *Plan) fields() []Field {
	csv, all := Kind(p.Route.Format) == "Csv", p.Sample.Fields()
	for i := range all {
		for _, other := range p.t.seen[key(p.Route)] {
			if csv && other.Ordinal == all[i].Ordinal || !csv && other.Name == all[i].Name {
				all[i].merge(other)
			}
		}
	}
	return all
}

// table adds the command that creates the table, or that adds columns to it. added are the new
// columns. If the table exists on the service, each new column is also listed as a change for the
// user.
func (p *Plan) table(added []Column) {
	if p.t.Exists && len(added) == 0 {
		return
	}
	if p.t.Similar != "" {
		p.note("there is no table %s, but one called %s; letter case counts", p.Route.Table, p.t.Similar)
	}
	was := p.t.Exists && !p.t.made // it exists on the service, not only in another plan
	var columns, changes []string
	for _, c := range added {
		columns = append(columns, kusto.EntityName(c.Name)+":"+c.Type)
		if was {
			changes = append(changes, fmt.Sprintf("table %s: + column %s:%s", p.Route.Table, c.Name, c.Type))
		}
	}
	p.step(fmt.Sprintf(".create-merge table %s (%s)", kusto.EntityName(p.Route.Table), strings.Join(columns, ", ")), changes...)
	p.t.Exists, p.t.made, p.t.Similar = true, !was, ""
}

// byPosition plans the columns for delimited text and TXT without a mapping, whose fields go to
// columns by position. Fields after the last column get new columns. It notes names and types that
// do not agree with the columns.
func (p *Plan) byPosition() {
	for _, f := range p.fields() {
		if f.Ordinal >= len(p.t.Columns) {
			p.add(f, Legal(f.Name))
			continue
		}
		c := &p.t.Columns[f.Ordinal]
		if f.Named && c.Name != Legal(f.Name) {
			p.note("field %d is called %s in the files, and goes by its position to column %s; with a mapping it can go elsewhere", f.Ordinal+1, f.Name, c.Name)
		}
		p.fits(f, c)
	}
}

// add adds a column for a field to the Table. If the name is taken, the column gets another one with a
// number.
func (p *Plan) add(f Field, name string) {
	name = Unique(name, func(s string) bool { return p.t.Column(s) != nil })
	p.t.Columns = append(p.t.Columns, Column{name, string(f.Type)})
}

// fits adds a note for the user if values that the files have for the field f do not fit the type
// of the column c.
func (p *Plan) fits(f Field, c *Column) {
	if !f.Fits(c.Type) {
		p.note("column %s is %s, and the files have %s for it: what does not fit is stored as null. setup never changes the type of a column; for another one: .alter column %s.%s type=%s",
			c.Name, c.Type, f.Type, kusto.EntityName(p.Route.Table), kusto.EntityName(c.Name), f.Type)
	}
}

// mapped gives each field that the mapping does not read yet a column and an element (the entry of
// a mapping for one column). It returns the command that creates or changes the mapping; nil if the
// mapping needs no change. It fails if the mapping of the service was not understood.
func (p *Plan) mapped() (*Step, error) {
	m := p.t.Mapping(p.Route)
	exists := m != nil
	if !exists {
		p.t.Mappings = append(p.t.Mappings, Mapping{Kind: Kind(p.Route.Format), Name: p.Route.Mapping, made: true})
		m = &p.t.Mappings[len(p.t.Mappings)-1]
	}
	if m.Err != nil {
		return nil, m.Err
	}
	all := slices.Clone(m.Elements)
	var changes []string
	before := slices.Clone(p.t.Columns) // fields without a name go to one of these, by position
	for _, f := range p.fields() {
		if i := slices.IndexFunc(all, func(e Element) bool { return e.takes(f) }); i >= 0 {
			p.filled(f, &all[i])
			continue
		}
		e, ok := p.element(f, all, before)
		if !ok {
			p.note("no path can name the member %s; it is left out", f.Name)
			continue
		}
		// An element that fills the same column from what the files do not have is replaced.
		if i := slices.IndexFunc(all, func(o Element) bool { return o.Column == e.Column }); i >= 0 {
			changes = append(changes, fmt.Sprintf("mapping %s: column %s from %s, so far from %s, which the files do not have", m.Name, e.Column, e.from(), all[i].from()))
			all[i] = e
			continue
		}
		changes = append(changes, fmt.Sprintf("mapping %s: + column %s from %s", m.Name, e.Column, e.from()))
		all = append(all, e)
	}
	m.Elements = all
	if exists && len(changes) == 0 {
		return nil, nil
	}
	if m.OfDatabase {
		p.note("mapping %s is one of the database; the table gets one of that name, which goes before it", m.Name)
	}
	if m.made { // a new mapping changes nothing that exists
		changes = nil
	}
	text, err := mappingText(all)
	return &Step{fmt.Sprintf(".create-or-alter table %s ingestion %s mapping %s %s",
		kusto.EntityName(p.Route.Table), strings.ToLower(m.Kind), kusto.StringLiteral(m.Name), kusto.TextLiteral(text)), changes}, err
}

// filled checks whether values of the field f fit the column of e, the element that reads f
// already; not if the service transforms them. It adds the column if the table lacks it. If e reads
// something inside f, the type of the column is not known, so a missing column is only noted.
func (p *Plan) filled(f Field, e *Element) {
	c := p.t.Column(e.Column)
	_, changed := e.Properties["Transform"]
	inner := e.isInner()
	switch {
	case c == nil && inner:
		p.note("the mapping %s fills column %s from %s, and the table has no such column; add it with .alter-merge table", p.Route.Mapping, e.Column, e.from())
	case c == nil:
		p.add(f, e.Column)
	case !changed && !inner:
		p.fits(f, c)
	}
}

// element returns a new mapping element for a field, and adds its column if the table lacks it. The
// column has the name of the field; a field of delimited text without a name takes the column at
// its position. If another element in all fills that column with a constant or other data of the
// files, the field gets a new column. before are the columns before the plan. It returns false if
// no path can name the field.
func (p *Plan) element(f Field, all []Element, before []Column) (Element, bool) {
	taken := func(name string) bool {
		return slices.ContainsFunc(all, func(e Element) bool {
			_, reads := e.source()
			return e.Column == name && (!reads || slices.ContainsFunc(p.t.seen[key(p.Route)], e.takes))
		})
	}
	name := Legal(f.Name)
	if Kind(p.Route.Format) == "Csv" && !f.Named && f.Ordinal < len(before) {
		name = before[f.Ordinal].Name
	}
	name = Unique(name, taken)
	e, ok := elementOf(Kind(p.Route.Format), f, name, string(f.Type))
	if !ok {
		return e, false
	}
	if c := p.t.Column(name); c != nil {
		p.fits(f, c)
		e.Datatype = c.Type
	} else {
		p.add(f, name)
	}
	return e, true
}

// policy adds the command that enables streaming ingestion for the table, unless the policy of the
// table or its database enables it already. If the table itself disables it, the step says so as a
// change.
func (p *Plan) policy() {
	holds, own := p.t.Streaming()
	if holds == On {
		return
	}
	var changes []string
	if own {
		changes = []string{fmt.Sprintf("table %s: streaming ingestion is off by its own policy, and would be on", p.Route.Table)}
	}
	p.step(EnableStreaming(p.Route.Table), changes...)
	p.t.own = On
}

// EnableStreaming returns the command that enables streaming ingestion for a table.
func EnableStreaming(table string) string {
	return ".alter table " + kusto.EntityName(table) + " policy streamingingestion enable"
}

// Grant adds the commands by which principals (identities of Kusto) may write to the table and read
// the schema of its database. Roles in known are left out, and the new ones are added to it, so
// that plans for one database do not repeat them.
func (p *Plan) Grant(principals []string, known Roles) {
	for _, who := range principals {
		for _, g := range []struct {
			to   role
			text string
		}{
			{ingestor(p.Route), GrantIngestor(p.Route.Table, who)},
			{viewer(p.Route), fmt.Sprintf(".add database %s viewers (%s)", kusto.EntityName(p.Route.Database), kusto.TextLiteral(who))},
		} {
			if g.to.principal = principalKey(who); !known[g.to] {
				known[g.to] = true
				p.step(g.text)
			}
		}
	}
}

// GrantIngestor is the command that lets a principal write to a table.
func GrantIngestor(table, who string) string {
	return fmt.Sprintf(".add table %s ingestors (%s)", kusto.EntityName(table), kusto.TextLiteral(who))
}
