package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"kusto-agent/config"
	"kusto-agent/internal/schema"
	"kusto-agent/kusto"
)

// ask runs a command or a query that changes nothing, and calls f with each row.
func (c *connection) ask(ctx context.Context, call kusto.Call, database, text string, f func(row map[string]string)) error {
	var got kusto.Collector
	err := c.Query(ctx, &kusto.Query{Call: call, Database: database, Text: text, ReadOnly: true}, &got)
	if err != nil {
		return err
	}
	got.Each(f)
	return nil
}

// look reads what there is of a table.
func (c *connection) look(ctx context.Context, in *config.Input) (*tableState, error) {
	t := &tableState{mappings: make(map[mappingKey][]element), foundMaps: make(map[mappingKey]bool), seen: make(map[mappingKey][]schema.Field)}
	table := kusto.EntityName(in.Table)
	var bad error
	keep := func(what string, err error) {
		if err != nil && bad == nil {
			bad = fmt.Errorf("read %s of table %q: %w", what, in.Table, err)
		}
	}
	ask := func(text string, f func(map[string]string)) error {
		return c.ask(ctx, kusto.Mgmt, in.Database, text, f)
	}
	err := ask(".show tables | where TableName == "+kusto.TextLiteral(in.Table)+" | project TableName", func(map[string]string) { t.exists, t.found = true, true })
	if err != nil {
		return nil, serviceError(err)
	}
	policy := func(on **bool) func(map[string]string) {
		return func(row map[string]string) {
			var p *struct{ IsEnabled *bool }
			keep("the policy", json.Unmarshal([]byte(row["Policy"]), &p))
			if p == nil {
				return
			}
			yes := p.IsEnabled == nil || *p.IsEnabled // the older form has no such member
			*on = &yes
		}
	}
	var ofDatabase *bool
	if err := ask(".show database "+kusto.EntityName(in.Database)+" policy streamingingestion", policy(&ofDatabase)); err != nil {
		return nil, serviceError(err)
	}
	t.inherited = ofDatabase != nil && *ofDatabase
	if !t.exists {
		return t, bad
	}
	for _, q := range []struct {
		text string
		read func(map[string]string)
	}{
		{".show table " + table + " policy streamingingestion", policy(&t.streaming)},
		{".show table " + table + " schema as json", func(row map[string]string) {
			var s struct {
				OrderedColumns []struct{ Name, CslType string }
			}
			keep("the schema", json.Unmarshal([]byte(row["Schema"]), &s))
			for _, col := range s.OrderedColumns {
				t.columns = append(t.columns, tableColumn{col.Name, col.CslType})
			}
		}},
		{".show table " + table + " ingestion mappings", func(row map[string]string) {
			var all []element
			keep("mapping "+row["Name"], json.Unmarshal([]byte(row["Mapping"]), &all))
			key := mappingKey{strings.ToLower(row["Kind"]), row["Name"]}
			t.mappings[key], t.foundMaps[key] = all, true
		}},
	} {
		if err := ask(q.text, q.read); err != nil {
			return nil, serviceError(err)
		}
	}
	return t, bad
}

// principals notes who has which role already. Where that may not be asked, nobody
// is known.
func (c *connection) principals(ctx context.Context, known map[grant]bool, key tableKey, exists bool) {
	note := func(of tableKey, role string) func(map[string]string) {
		return func(row map[string]string) {
			if strings.HasSuffix(strings.ToLower(row["Role"]), role) {
				known[grant{of, role, principalKey(row["PrincipalFQN"])}] = true
			}
		}
	}
	_ = c.ask(ctx, kusto.Mgmt, key.database, ".show database "+kusto.EntityName(key.database)+" principals", note(tableKey{key.cluster, key.database, ""}, "viewer"))
	if exists {
		_ = c.ask(ctx, kusto.Mgmt, key.database, ".show table "+kusto.EntityName(key.table)+" principals", note(key, "ingestor"))
	}
}
