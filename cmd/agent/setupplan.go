package main

import (
	"fmt"
	"slices"
	"strings"

	"kusto-agent/config"
	"kusto-agent/format"
	"kusto-agent/internal/schema"
	"kusto-agent/kusto"
)

// tableKey names a table.
type tableKey struct{ cluster, database, table string }

// tableState is a table as it is, and then as the plan makes it.
type tableState struct {
	exists    bool
	found     bool                // it was there before
	foundMaps map[mappingKey]bool // mappings that were
	columns   []tableColumn
	mappings  map[mappingKey][]element
	seen      map[mappingKey][]schema.Field // what all inputs of a mapping have for it
	streaming *bool                         // its own policy; nil: that of its database holds
	inherited bool                          // the policy of its database is on
}

type tableColumn struct{ name, typ string }

type mappingKey struct{ kind, name string }

func (t *tableState) column(name string) *tableColumn {
	if i := slices.IndexFunc(t.columns, func(c tableColumn) bool { return c.name == name }); i >= 0 {
		return &t.columns[i]
	}
	return nil
}

// step is a command of the plan.
type step struct {
	text    string
	changes []string // what was there and would change, for people; empty: the command makes something new
}

// planner makes the commands that a sample asks for.
type planner struct {
	in     *config.Input
	key    tableKey
	t      *tableState
	sample *schema.Sample
	known  map[grant]bool
	steps  []step
	notes  []string
}

func (p *planner) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func (p *planner) step(text string, changes ...string) {
	p.steps = append(p.steps, step{text, changes})
}

// plan is all commands for an input; the state becomes what they make of it.
func (p *planner) plan() error {
	was := len(p.t.columns)
	var mapping *step
	if p.in.Mapping == "" {
		p.byPosition()
	} else {
		var err error
		if mapping, err = p.mapped(); err != nil {
			return err
		}
	}
	p.table(p.t.columns[was:])
	if mapping != nil {
		p.steps = append(p.steps, *mapping)
	}
	if n := p.sample.Others; n > 0 {
		p.note("the header of %s is not that of the newest file, whose order was taken", counted(n, "file"))
	}
	p.policy()
	return nil
}

// fields are those of the sample, with types that hold what other inputs of the
// mapping have for them too.
func (p *planner) fields() []schema.Field {
	key, all := p.mapping(), p.sample.Fields()
	for i := range all {
		for _, other := range p.t.seen[key] {
			if key.kind == "csv" && other.Ordinal == all[i].Ordinal || key.kind != "csv" && other.Name == all[i].Name {
				all[i].Type = schema.Merged(all[i].Type, other.Type)
			}
		}
	}
	return all
}

// mapping is the one of the input; its name may be empty.
func (p *planner) mapping() mappingKey {
	spec, _ := format.Of(p.in.Format)
	return mappingKey{strings.ToLower(spec.Mapping), p.in.Mapping}
}

// table makes the table, or adds columns to it.
func (p *planner) table(added []tableColumn) {
	if p.t.exists && len(added) == 0 {
		return
	}
	var columns, changes []string
	for _, c := range added {
		columns = append(columns, kusto.EntityName(c.name)+":"+c.typ)
		if p.t.found {
			changes = append(changes, fmt.Sprintf("table %s: + column %s:%s", p.in.Table, c.name, c.typ))
		}
	}
	p.step(fmt.Sprintf(".create-merge table %s (%s)", kusto.EntityName(p.in.Table), strings.Join(columns, ", ")), changes...)
	p.t.exists = true
}

// byPosition is for delimited text and TXT without a mapping: what is not in the
// table yet comes behind what is.
func (p *planner) byPosition() {
	for _, f := range p.fields() {
		if f.Ordinal >= len(p.t.columns) {
			p.add(f, schema.Legal(f.Name))
			continue
		}
		c := &p.t.columns[f.Ordinal]
		if f.Named && c.name != schema.Legal(f.Name) {
			p.note("field %d is called %s in the files, and goes by its position to column %s; with a mapping it can go elsewhere", f.Ordinal+1, f.Name, c.name)
		}
		p.fits(f, c)
	}
}

// add makes a column for a field.
func (p *planner) add(f schema.Field, name string) *tableColumn {
	name = schema.Unique(name, func(s string) bool { return p.t.column(s) != nil })
	p.t.columns = append(p.t.columns, tableColumn{name, string(f.Type)})
	return &p.t.columns[len(p.t.columns)-1]
}

// fits tells where a column does not hold what the files have for it.
func (p *planner) fits(f schema.Field, c *tableColumn) {
	has := schema.Type(c.typ)
	switch {
	case has == f.Type, has == schema.String, has == schema.Dynamic:
	case f.Type == schema.Long && (has == "int" || has == schema.Real || has == schema.Decimal):
	case f.Type == schema.Decimal && has == schema.Real, f.Type == schema.Real && has == schema.Decimal:
	default:
		p.note("column %s is %s, and the files have %s for it: what does not fit is stored as null. setup never changes the type of a column; for another one: .alter column %s.%s type=%s",
			c.name, c.typ, f.Type, kusto.EntityName(p.in.Table), kusto.EntityName(c.name), f.Type)
	}
}

// mapped gives each field that the mapping does not read yet a column and an
// element. It returns the command for the mapping; nil: it is right as it is.
func (p *planner) mapped() (*step, error) {
	key := p.mapping()
	old, exists := p.t.mappings[key]
	all := slices.Clone(old)
	var changes []string
	before := slices.Clone(p.t.columns) // that fields without a name go to by their position
	for _, f := range p.fields() {
		if i := slices.IndexFunc(all, func(e element) bool { return e.takes(f) }); i >= 0 {
			p.filled(f, &all[i])
			continue
		}
		e, ok := p.element(key, f, all, before)
		if !ok {
			p.note("no path can name the member %s; it is left out", f.Name)
			continue
		}
		if i := slices.IndexFunc(all, func(o element) bool { return o.Column == e.Column }); i >= 0 {
			changes = append(changes, fmt.Sprintf("mapping %s: column %s from %s, so far from %s, which the files do not have", p.in.Mapping, e.Column, e.from(), all[i].from()))
			all[i] = e
			continue
		}
		changes = append(changes, fmt.Sprintf("mapping %s: + column %s from %s", p.in.Mapping, e.Column, e.from()))
		all = append(all, e)
	}
	p.t.mappings[key] = all
	if exists && len(changes) == 0 {
		return nil, nil
	}
	if !p.t.foundMaps[key] {
		changes = nil
	}
	text, err := mappingText(all)
	return &step{fmt.Sprintf(".create-or-alter table %s ingestion %s mapping %s %s",
		kusto.EntityName(p.in.Table), key.kind, kusto.StringLiteral(p.in.Mapping), kusto.TextLiteral(text)), changes}, err
}

// filled is for a field that the mapping has already: only its column may be missing.
func (p *planner) filled(f schema.Field, e *element) {
	c := p.t.column(e.Column)
	_, changed := e.Properties["Transform"]
	inner := e.Properties["Path"] != "" && !slices.Contains([]string{"$." + f.Name, "$['" + f.Name + "']", `$["` + f.Name + `"]`}, e.Properties["Path"])
	switch {
	case c == nil && inner:
		p.note("the mapping %s fills column %s from %s, and the table has no such column; add it with .alter-merge table", p.in.Mapping, e.Column, e.from())
	case c == nil:
		p.add(f, e.Column)
	case !changed && !inner:
		p.fits(f, c)
	}
}

// element makes one for a field, with the column it goes to: that of its name, of
// its position where it has none, else a new one.
func (p *planner) element(key mappingKey, f schema.Field, all []element, before []tableColumn) (element, bool) {
	taken := func(name string) bool {
		return slices.ContainsFunc(all, func(e element) bool {
			return e.Column == name && (e.isConstant() || slices.ContainsFunc(p.t.seen[key], e.takes))
		})
	}
	name := schema.Legal(f.Name)
	if key.kind == "csv" && !f.Named && f.Ordinal < len(before) {
		name = before[f.Ordinal].name
	}
	name = schema.Unique(name, taken)
	e, ok := elementOf(key.kind, f, name, string(f.Type))
	if !ok {
		return e, false
	}
	if c := p.t.column(name); c != nil {
		p.fits(f, c)
		e.Datatype = c.typ
	} else {
		p.t.columns = append(p.t.columns, tableColumn{name, string(f.Type)})
	}
	return e, true
}

// policy turns streaming on where neither the table nor its database has it on.
func (p *planner) policy() {
	if !p.t.exists || p.t.streaming != nil && *p.t.streaming || p.t.streaming == nil && p.t.inherited {
		return
	}
	var changes []string
	if p.t.streaming != nil {
		changes = []string{fmt.Sprintf("table %s: streaming ingestion is off by its own policy, and would be on", p.in.Table)}
	}
	p.step(fmt.Sprintf(".alter table %s policy streamingingestion enable", kusto.EntityName(p.in.Table)), changes...)
	on := true
	p.t.streaming = &on
}

// grant is a role that somebody has: of a database where it names no table.
type grant struct {
	tableKey
	role, who string
}

// grants lets principals write to the table, and read the schema of the database.
func (p *planner) grants(principals []string) {
	database := tableKey{p.key.cluster, p.key.database, ""}
	for _, who := range principals {
		add := func(g grant, text string) {
			if !p.known[g] {
				p.known[g] = true
				p.step(text)
			}
		}
		id := principalKey(who)
		add(grant{p.key, "ingestor", id}, grantIngestor(p.in.Table, who))
		add(grant{database, "viewer", id}, fmt.Sprintf(".add database %s viewers (%s)", kusto.EntityName(p.key.database), kusto.TextLiteral(who)))
	}
}

func grantIngestor(table, who string) string {
	return fmt.Sprintf(".add table %s ingestors (%s)", kusto.EntityName(table), kusto.TextLiteral(who))
}

// principalKey is what two spellings of a principal have in common.
func principalKey(who string) string {
	id, _, _ := strings.Cut(strings.ToLower(who), ";")
	return id
}
