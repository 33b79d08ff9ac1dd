package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kusto-agent/config"
	"kusto-agent/format"
	"kusto-agent/kusto"
)

// view is what could be seen of an input's table and mapping.
type view struct {
	*run
	in      *config.Input
	c       *cluster
	kind    string // of the mappings of its format
	columns []field
	known   bool      // columns are those of the table
	mapping []element // nil: none was seen
	mapped  bool      // mapping is that of the input

	refused *kusto.Error // by the probe; nil: it may ingest
	blind   bool         // the identity may not look
	told    bool         // that something is not there was told
}

// field is a column of a table.
type field struct {
	Name string
	Type string `json:"CslType"`
}

// tables looks at table, mapping, policies and role of each input.
func (r *run) tables(ctx context.Context) {
	for i := range r.cfg.Inputs {
		in := &r.cfg.Inputs[i]
		c := r.clusters[in.Cluster]
		if c.closed != "" {
			r.add(Finding{ID: "table", Severity: Warning, Input: in.Name, Where: in.Database + "." + in.Table, What: "the table was not looked at: " + c.closed, Fix: "mend that first, and check again"})
			continue
		}
		spec, _ := format.Of(in.Format) // it is one of them
		v := &view{run: r, in: in, c: c, kind: spec.Mapping}
		r.views[in.Name] = v
		v.look(ctx)
	}
}

// look asks from the outside in. The probe goes first: it is what counts, and
// decides what the rest means.
func (v *view) look(ctx context.Context) {
	if !v.probe(ctx) {
		return
	}
	if v.table(ctx) {
		v.mappings(ctx)
		v.policies(ctx)
		v.updates(ctx)
	}
	v.verdict()
}

func (v *view) where() string { return v.in.Database + "." + v.in.Table }

func (v *view) tell(id string, s Severity, what, fix string) {
	v.add(Finding{ID: id, Severity: s, Input: v.in.Name, Where: v.where(), What: what, Fix: fix})
}

// probe asks to ingest nothing: the service checks token, role, policy, table and
// mapping before it finds that there is no record, and stores nothing. It says
// false if there is no use in going on.
func (v *view) probe(ctx context.Context) bool {
	a := v.c.conn.Client.Ingest(ctx, &kusto.Ingest{
		Database: v.in.Database, Table: v.in.Table, Format: string(v.in.Format), Mapping: v.in.Mapping,
		RequestID: "kusto-agent.check;" + uuid.NewString() + ";1",
	})
	switch a.Verdict {
	case kusto.Accepted, kusto.BadData:
	case kusto.Hold:
		v.refused = a.Err
	case kusto.Throttled, kusto.Retry, kusto.TooLarge:
		f := failed(Finding{ID: "ingest", Input: v.in.Name, Where: v.where()}, a.Err)
		f.Severity, f.Fix = Warning, "the service is busy or failed at it; check again"
		v.add(f)
	default:
		f := failed(Finding{ID: "ingest", Input: v.in.Name, Where: v.where()}, a.Err)
		if f.Class == Plain {
			f.Class = Away
		}
		v.add(f)
		return false
	}
	return true
}

// showPatience bounds what one look at the schema takes.
const showPatience = time.Minute

// ask runs a command that only shows.
func (v *view) ask(ctx context.Context, text string) (*kusto.Collector, error) {
	return v.askOf(ctx, v.in.Database, text)
}

func (v *view) askOf(ctx context.Context, database, text string) (*kusto.Collector, error) {
	var got kusto.Collector
	err := v.c.conn.Client.Query(ctx, &kusto.Query{Call: kusto.Mgmt, Database: database, Text: text, ReadOnly: true, Timeout: showPatience}, &got)
	return &got, err
}

// table looks whether there is one, and at its columns.
func (v *view) table(ctx context.Context) bool {
	got, err := v.ask(ctx, ".show tables")
	var e *kusto.Error
	switch {
	case err == nil:
	case errors.As(err, &e) && e.Denied():
		v.blind = true
		f := v.c.named(failed(Finding{ID: "role.view", Input: v.in.Name, Where: v.where()}, err))
		f.Severity, f.Class = Warning, Plain
		f.What = "could not look at the table, which need not be wrong: " + f.What
		v.add(f)
		return false
	case errors.As(err, &e) && e.Missing():
		v.told = true
		v.tell("database", Error, fmt.Sprintf("there is no database %s: %v", v.in.Database, err), v.otherDatabases(ctx))
		return false
	default:
		v.add(v.c.named(failed(Finding{ID: "table", Input: v.in.Name, Where: v.where()}, err)))
		return false
	}
	var names []string
	got.Each(func(row map[string]string) { names = append(names, row["TableName"]) })
	if !slices.Contains(names, v.in.Table) {
		if v.refused == nil {
			return true // it takes records: who may ingest need not be shown it
		}
		v.told = true
		v.noTable(ctx, names)
		return false
	}
	return v.schema(ctx)
}

// otherDatabases is what to do about one that is not there.
func (v *view) otherDatabases(ctx context.Context) string {
	var names []string
	if got, err := v.askOf(ctx, "", ".show databases"); err == nil {
		got.Each(func(row map[string]string) { names = append(names, row["DatabaseName"]) })
	}
	if len(names) == 0 {
		return "set database to one that is there\n.show databases"
	}
	return "set database to one that is there: " + strings.Join(names[:min(len(names), 10)], ", ")
}

func (v *view) noTable(ctx context.Context, names []string) {
	what := "there is no table " + v.in.Table
	for _, n := range names {
		if strings.EqualFold(n, v.in.Table) {
			v.tell("table", Error, what+", but one called "+n, "letter case counts: set table: "+n)
			return
		}
	}
	v.tell("table", Error, what, v.creation(ctx))
}

// creation is the commands for the table and all that it needs, in the order in
// which they work.
func (v *view) creation(ctx context.Context) string {
	columns := guess(v.sample(ctx, v.in), v.in)
	if len(columns) == 0 {
		return "let setup make it, with its mapping and policy, from what the files hold\n" + v.setup()
	}
	var list []string
	for _, c := range columns {
		list = append(list, kusto.EntityName(c.Name)+": "+c.Type)
	}
	table := kusto.EntityName(v.in.Table)
	lines := []string{"create it with what it needs, then clear the cache of streaming ingestion", fmt.Sprintf(".create-merge table %s (%s)", table, strings.Join(list, ", "))}
	if v.in.Mapping != "" {
		lines = append(lines, v.createMapping(columns))
	}
	if v.policy(ctx, "database "+kusto.EntityName(v.in.Database)+" policy streamingingestion") != "on" {
		lines = append(lines, ".alter table "+table+" policy streamingingestion enable")
	}
	return strings.Join(append(lines, clearCache), "\n")
}

// clearCache has the streaming nodes look at the schema again.
const clearCache = ".clear database cache streamingingestion schema"

// setup is the command line that makes what the input needs.
func (v *view) setup() string {
	return "kusto-agent setup --input " + quoted(v.in.Name) + " --config " + quoted(v.Path)
}

// schema reads the columns.
func (v *view) schema(ctx context.Context) bool {
	got, err := v.ask(ctx, ".show table "+kusto.EntityName(v.in.Table)+" schema as json")
	if err != nil {
		v.add(v.c.named(failed(Finding{ID: "table", Input: v.in.Name, Where: v.where()}, err)))
		return false
	}
	var doc struct{ OrderedColumns []field }
	got.Each(func(row map[string]string) {
		v.known = json.Unmarshal([]byte(row["Schema"]), &doc) == nil && len(doc.OrderedColumns) > 0
	})
	v.columns = doc.OrderedColumns
	v.add(Finding{ID: "table", Severity: OK, Input: v.in.Name, Where: v.where(), What: "the table has " + count(len(v.columns), "column")})
	return true
}

// verdict tells what the probe was refused for. That something is not there may
// have been told already; a role or a policy is told beside it.
func (v *view) verdict() {
	switch {
	case v.refused == nil:
		v.tell("ingest", OK, v.c.ingestor()+" may ingest, and the service takes table, mapping and format", "")
		return
	case v.told && v.refused.Missing():
		return
	}
	f := v.c.named(failed(Finding{ID: "ingest", Input: v.in.Name, Where: v.where()}, v.refused))
	if cluster, table := v.off(); cluster || table {
		f.ID, f.Fix = "policy", f.Fix+"\n"+clearCache
	}
	if v.refused.Missing() && !v.blind {
		f.What = "the streaming nodes do not know it yet: " + f.What
		f.Fix = "have them look again, or wait five minutes\n" + clearCache
	}
	v.add(f)
}

func (c *cluster) ingestor() string {
	if c.Auth.Method == "none" {
		return "anybody"
	}
	return "this identity"
}
