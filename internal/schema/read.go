package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/record"
)

// showTimeout bounds what one look at the schema takes.
const showTimeout = time.Minute

// Reader reads the schema of a database. Its requests change nothing.
type Reader struct {
	Client   *query.Client
	Database string // empty: none, for Databases
}

// show runs a management command that only reads, within showTimeout, and calls f with each row of
// its first table, as texts by column name.
func (r Reader) show(ctx context.Context, text string, f func(row map[string]string)) error {
	var got query.Collector
	if err := r.Client.Query(ctx, &query.Query{Call: query.Mgmt, Database: r.Database, Text: text, ReadOnly: true, Timeout: showTimeout}, &got); err != nil {
		return err
	}
	got.Each(f)
	return nil
}

// names runs a command and returns the values of one column of its result.
func (r Reader) names(ctx context.Context, text, column string) (all []string, err error) {
	err = r.show(ctx, text, func(row map[string]string) { all = append(all, row[column]) })
	return all, err
}

// Databases returns the names of the databases that the identity may see.
func (r Reader) Databases(ctx context.Context) ([]string, error) {
	return r.names(ctx, ".show databases", "DatabaseName")
}

// Table reads what the service has for the table of a route: columns, mappings and streaming
// policy. It fails if the tables of the database cannot be listed. If something else cannot be
// read, its error is in the Table.
func (r Reader) Table(ctx context.Context, of record.Route) (*Table, error) {
	t := &Table{}
	names, err := r.names(ctx, ".show tables", "TableName")
	if err != nil {
		return nil, err
	}
	t.Exists = slices.Contains(names, of.Table)
	if i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, of.Table) }); i >= 0 && !t.Exists {
		t.Similar = names[i]
	}
	if !t.Exists {
		t.Others = names
	}
	database, table := "database "+kusto.EntityName(r.Database), "table "+kusto.EntityName(of.Table)
	if t.Exists {
		t.own, t.PolicyErr = r.streaming(ctx, table)
		t.Columns, t.ColumnsErr = r.columns(ctx, table)
		t.Mappings, t.MappingsErr = r.mappings(ctx, table)
	}
	if t.own == Unset && t.PolicyErr == nil {
		t.inherited, t.PolicyErr = r.streaming(ctx, database)
	}
	r.Inherit(ctx, of, t)
	return t, nil
}

// Inherit adds the mappings of the database to a table that has none of its own for the route. Table
// has done so for its route; for another route of that table it is called apart.
func (r Reader) Inherit(ctx context.Context, of record.Route, t *Table) {
	if of.Mapping == "" || t.MappingsErr != nil || t.inherits || t.Mapping(of) != nil {
		return
	}
	t.inherits = true
	// An error, for lack of a role or of such mappings, counts as none.
	all, _ := r.mappings(ctx, "database "+kusto.EntityName(r.Database))
	for _, m := range all {
		m.OfDatabase = true
		t.Mappings = append(t.Mappings, m)
	}
}

// streaming reads the streaming ingestion policy of a table or a database; the result is Unset if
// it has none. of is the entity as in a command, such as "table ['t']".
func (r Reader) streaming(ctx context.Context, of string) (p Policy, err error) {
	var bad error
	err = r.show(ctx, ".show "+of+" policy streamingingestion", func(row map[string]string) {
		if row["Policy"] != "" {
			bad = json.Unmarshal([]byte(row["Policy"]), &p)
		}
	})
	return p, readError(err, bad, "the policy of streaming ingestion of "+of)
}

// columns reads the columns of a table, in their order. table is the table as in a command, such as
// "table ['t']".
func (r Reader) columns(ctx context.Context, table string) (all []Column, err error) {
	var bad error
	err = r.show(ctx, ".show "+table+" schema as json", func(row map[string]string) {
		var doc struct{ OrderedColumns []Column }
		bad = json.Unmarshal([]byte(row["Schema"]), &doc)
		all = doc.OrderedColumns
	})
	return all, readError(err, bad, "the columns of "+table)
}

// mappings reads the ingestion mappings of a table or a database. A mapping that is not understood
// has its own error. of is the entity as in a command, such as "table ['t']".
func (r Reader) mappings(ctx context.Context, of string) (all []Mapping, err error) {
	err = r.show(ctx, ".show "+of+" ingestion mappings", func(row map[string]string) {
		m := Mapping{Kind: row["Kind"], Name: row["Name"]}
		m.Err = readError(nil, json.Unmarshal([]byte(row["Mapping"]), &m.Elements), "mapping "+m.Name)
		all = append(all, m)
	})
	return all, err
}

// readError returns err, the error of a command, or else bad, that of decoding its answer, with
// what was read (what). It returns nil if both are nil.
func readError(err, bad error, what string) error {
	if err == nil && bad != nil {
		return fmt.Errorf("read %s: %w", what, bad)
	}
	return err
}

// Updates returns how many update policies of a table are enabled. table is its plain name. A
// policy that is not understood counts as none.
func (r Reader) Updates(ctx context.Context, table string) (enabled int, err error) {
	err = r.show(ctx, ".show table "+kusto.EntityName(table)+" policy update", func(row map[string]string) {
		var all []struct{ IsEnabled bool }
		if json.Unmarshal([]byte(row["Policy"]), &all) == nil {
			for _, p := range all {
				if p.IsEnabled {
					enabled++
				}
			}
		}
	})
	return enabled, err
}

// Roles are the roles that principals are known to have.
type Roles map[role]bool

// role is one of a principal: of a database where it names no table.
type role struct{ cluster, database, table, role, principal string }

// Principals adds to known which principals (identities of Kusto) may read the database of a route,
// and, if exists says that the table exists, which may write to it. What the agent may not read is
// left out.
func (r Reader) Principals(ctx context.Context, of record.Route, exists bool, known Roles) {
	note := func(to role) func(map[string]string) {
		return func(row map[string]string) {
			if strings.HasSuffix(strings.ToLower(row["Role"]), to.role) {
				to.principal = principalKey(row["PrincipalFQN"])
				known[to] = true
			}
		}
	}
	_ = r.show(ctx, ".show database "+kusto.EntityName(r.Database)+" principals", note(viewer(of)))
	if exists {
		_ = r.show(ctx, ".show table "+kusto.EntityName(of.Table)+" principals", note(ingestor(of)))
	}
}

func viewer(of record.Route) role   { return role{of.Cluster, of.Database, "", "viewer", ""} }
func ingestor(of record.Route) role { return role{of.Cluster, of.Database, of.Table, "ingestor", ""} }

// principalKey returns the part of the name of a principal that all its spellings share: what is
// before the semicolon, in lower case, such as "aadapp=<client id>".
func principalKey(who string) string {
	id, _, _ := strings.Cut(strings.ToLower(who), ";")
	return id
}
