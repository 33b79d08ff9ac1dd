package check

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/schema"
	"kusto-agent/internal/units"
)

// view is what could be seen of an input's table and mapping.
type view struct {
	*run
	in     *config.Input
	c      *cluster
	table  *schema.Table // nil: it was not seen
	mapped bool          // table has columns, and the mapping of the input

	refused *kusto.Error // by the probe; nil: it may ingest
	blind   bool         // the identity may not look
	told    bool         // that something is not there was told
}

// tables checks table, mapping, policies and role of each input. If the cluster of an input cannot
// be used, it only adds a finding with the reason (c.closed).
func (r *run) tables(ctx context.Context) {
	for i := range r.cfg.Inputs {
		in := &r.cfg.Inputs[i]
		c := r.clusters[in.Cluster]
		if c.closed != "" {
			r.add(Finding{ID: "table", Severity: Warning, Input: in.Name, Where: in.Database + "." + in.Table, What: "the table was not looked at: " + c.closed, Fix: "fix that first, and check again"})
			continue
		}
		v := &view{run: r, in: in, c: c}
		r.views[in.Name] = v
		v.look(ctx)
	}
}

// look checks what an input needs on the service. First the probe (a request to ingest nothing)
// finds out whether the service would take records. What follows explains a refusal, and compares
// table, mapping and policies with the configuration.
func (v *view) look(ctx context.Context) {
	if !v.probe(ctx) {
		return
	}
	if v.read(ctx) {
		v.mappings(ctx)
		v.policies()
		v.updates(ctx)
	}
	v.verdict()
}

func (v *view) where() string { return v.in.Database + "." + v.in.Table }

func (v *view) tell(id string, s Severity, what, fix string) {
	v.add(Finding{ID: id, Severity: s, Input: v.in.Name, Where: v.where(), What: what, Fix: fix})
}

// failed returns a finding on a request for the input that ended with err. If the service did not name
// the identity that it refused, the fix names that of the agent.
func (v *view) failed(id string, err error) Finding {
	f := failed(Finding{ID: id, Input: v.in.Name, Where: v.where()}, err)
	if v.c.Auth.ClientID != "" {
		f.Fix = strings.ReplaceAll(f.Fix, unknownPrincipal, v.c.principal())
	}
	return f
}

// unseen adds a warning that something could not be looked at because of err.
func (v *view) unseen(id, what string, err error) {
	f := v.failed(id, err)
	f.Severity, f.Exit = Warning, 0
	f.What = "could not look at " + what + ", which need not be wrong: " + f.What
	v.add(f)
}

// probe sends a request to ingest an empty body: the service checks token, role, policy, table and
// mapping before it finds that there is no record, and stores nothing. A refusal is kept in
// v.refused for verdict. It returns false if the other checks would be useless, since the service
// was not reached or the token was refused.
func (v *view) probe(ctx context.Context) bool {
	a := v.c.conn.Client.Ingest(ctx, &kusto.Ingest{
		Database: v.in.Database, Table: v.in.Table, Format: string(v.in.Format), Mapping: v.in.Mapping,
		RequestID: "kusto-agent.check;" + uuid.NewString() + ";1",
	})
	switch a.Verdict {
	case kusto.Accepted, kusto.BadData: // everything but the body is right
	case kusto.Hold:
		v.refused = a.Err
	case kusto.Throttled, kusto.Retry, kusto.TooLarge:
		f := v.failed("ingest", a.Err)
		f.Severity, f.Fix = Warning, "the service is busy or failed at it; check again"
		v.add(f)
	default:
		f := v.failed("ingest", a.Err)
		if f.Exit == exit.Failed { // no clear answer came
			f.Exit = exit.Unreachable
		}
		v.add(f)
		return false
	}
	return true
}

func (v *view) reader(database string) schema.Reader {
	return schema.Reader{Client: v.c.conn.Client, Database: database}
}

// read reads the table from the service into v.table, and adds a finding. It returns false if
// mapping and policies cannot be checked, since the table cannot be read, may not be seen, or does
// not exist.
func (v *view) read(ctx context.Context) bool {
	t, err := v.reader(v.in.Database).Table(ctx, v.in.Route())
	var e *kusto.Error
	switch {
	case err == nil:
	case errors.As(err, &e) && e.Denied():
		v.blind = true
		v.unseen("role.view", "the table", err)
		return false
	case errors.As(err, &e) && e.Missing():
		v.told = true
		v.tell("database", Error, fmt.Sprintf("there is no database %s: %v", v.in.Database, err), v.otherDatabases(ctx))
		return false
	default:
		v.add(v.failed("table", err))
		return false
	}
	v.table = t
	switch {
	case t.ColumnsErr != nil:
		v.add(v.failed("table", t.ColumnsErr))
		return false
	case t.Exists:
		v.tell("table", OK, "the table has "+units.Counted(len(t.Columns), "column"), "")
	case v.refused != nil: // if it takes records, it exists; the identity may just not see it
		v.told = true
		v.noTable(ctx)
		return false
	}
	return true
}

// otherDatabases returns the fix for a configured database that does not exist: it names up to 10
// databases of the cluster, or, if they cannot be read, the command that lists them.
func (v *view) otherDatabases(ctx context.Context) string {
	names, err := v.reader("").Databases(ctx)
	if err != nil || len(names) == 0 {
		return "set database to one that is there\n.show databases"
	}
	return "set database to one that is there: " + strings.Join(names[:min(len(names), 10)], ", ")
}

// noTable adds the finding that the table does not exist, with the commands that create
// it.
func (v *view) noTable(ctx context.Context) {
	what := "there is no table " + v.in.Table
	if n := v.table.Similar; n != "" {
		v.tell("table", Error, what+", but one called "+n, "letter case counts: set table: "+n)
		return
	}
	fix := ""
	if n, ok := config.Nearest(v.in.Table, v.table.Others); ok {
		what += "; did you mean " + n + "?"
		fix = "set table: " + n + " if that is meant; else "
	}
	if commands := v.plan(ctx); len(commands) > 0 {
		fix += v.setup() + " makes it, or an administrator by these\n" + strings.Join(append(commands, schema.ClearCache), "\n")
	} else {
		fix += "let setup make it, with its mapping and policy, from what the files hold\n" + v.setup()
	}
	v.tell("table", Error, what, fix)
}

// plan returns the commands that setup would run for the sampled records of the input. If these do
// not show the columns, it takes the columns of the existing table. This is so without records, and
// with header: skip, as the sample then lacks the names. It returns nil if the table has none
// either.
func (v *view) plan(ctx context.Context) (commands []string) {
	seen := &schema.Sample{Format: v.in.Format, Texts: v.in.HasTexts()}
	seen.Expect(v.in.ExpectedColumns())
	s := v.sample(ctx, v.in)
	if v.in.Header == "skip" || seen.Add(s.body, len(s.body), sampled) != nil || len(seen.Fields()) == 0 {
		if seen = schema.SampleOf(v.in.Format, v.table.Columns); len(v.table.Columns) == 0 {
			return nil
		}
	}
	t := *v.table // a copy, since the plan changes it
	p := schema.NewPlan(v.in.Route(), &t, seen)
	if p.Make() != nil {
		return nil
	}
	for _, s := range p.Steps {
		commands = append(commands, s.Text)
	}
	return commands
}

// setup is the command line that makes what the input needs.
func (v *view) setup() string {
	return "kusto-agent setup --input " + config.Quoted(v.in.Name) + " --config " + config.Quoted(v.Path)
}

// mappings looks for the mapping that the input names, and adds a finding: it is there, is missing, or
// cannot be read. It sets v.mapped to whether table columns and mapping are known, so that later checks
// can compare records with them.
func (v *view) mappings(ctx context.Context) {
	v.mapped = len(v.table.Columns) > 0
	if v.in.Mapping == "" {
		return
	}
	kind := schema.Kind(v.in.Format)
	m := v.table.Mapping(v.in.Route())
	show := ".show table " + kusto.EntityName(v.in.Table) + " ingestion mappings"
	switch err := v.table.MappingsErr; {
	case err != nil:
		v.mapped = false
		v.add(v.failed("mapping", err))
	case m == nil:
		v.mapped = false
		v.noMapping(ctx, kind)
	case m.Err != nil:
		v.mapped = false
		v.tell("mapping", Warning, fmt.Sprintf("mapping %s was not understood: %v", m.Name, m.Err), "look at it\n"+show)
	default:
		of := ""
		if m.OfDatabase {
			of = " of the database"
		}
		v.tell("mapping", OK, fmt.Sprintf("mapping %s of kind %s%s fills %s", m.Name, kind, of, units.Counted(len(m.Elements), "column")), "")
	}
}

// noMapping adds the finding that the mapping, of the given kind, does not exist, with the commands
// that create it. If there is one of similar name or of another kind, the finding names that.
func (v *view) noMapping(ctx context.Context, kind string) {
	if v.refused == nil { // the service accepts it, so it may be one of the database, which is not visible
		v.tell("mapping", OK, "mapping "+v.in.Mapping+" is not one of the table, and is accepted", "")
		return
	}
	create := "\n" + v.setup()
	var lines []string
	for _, c := range v.plan(ctx) {
		if c != schema.EnableStreaming(v.in.Table) { // the policy has a finding of its own
			lines = append(lines, c)
		}
	}
	if len(lines) > 0 {
		create = "\n" + strings.Join(append(lines, schema.ClearCache), "\n")
	}
	v.told = true
	what := fmt.Sprintf("there is no mapping %s of kind %s, which format %s needs", v.in.Mapping, kind, v.in.Format)
	for _, m := range v.table.Mappings {
		switch {
		case strings.EqualFold(m.Name, v.in.Mapping) && strings.EqualFold(m.Kind, kind):
			v.tell("mapping", Error, what+", but one called "+m.Name, "letter case counts: set mapping: "+m.Name)
			return
		case m.Name == v.in.Mapping:
			v.tell("mapping", Error, what+", but one of the same name and kind "+m.Kind, "create one of this kind, or set format to one that goes with kind "+m.Kind+create)
			return
		}
	}
	v.tell("mapping", Error, what, "create it, with what goes into each column"+create)
}

// verdict adds the finding for the answer to the probe (the request to ingest nothing): that the
// service takes records, or why it refuses them. A missing table or mapping that has a finding
// already is left out.
func (v *view) verdict() {
	switch {
	case v.refused == nil:
		v.tell("ingest", OK, v.c.ingestor()+" may ingest, and the service takes table, mapping and format", "")
		return
	case v.told && v.refused.Missing():
		return
	}
	f := v.failed("ingest", v.refused)
	if cluster, table := v.refused.StreamingOff(); cluster || table {
		f.ID, f.Fix = "policy", f.Fix+"\n"+schema.ClearCache
	}
	if v.refused.Missing() && !v.blind {
		f.What = "the streaming nodes do not know it yet: " + f.What
		f.Fix = "have them look again, or wait five minutes\n" + schema.ClearCache
	}
	v.add(f)
}

// ingestor returns a word for who may ingest, for texts: "anybody" if the cluster needs no token,
// else "this identity".
func (c *cluster) ingestor() string {
	if c.Auth.Method == "none" {
		return "anybody"
	}
	return "this identity"
}
