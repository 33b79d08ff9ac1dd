package check

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"kusto-agent/internal/schema"
	"kusto-agent/kusto"
)

// mappings looks for that of the input, by its name and the kind of its format.
func (v *view) mappings(ctx context.Context) {
	if v.in.Mapping == "" {
		v.mapping, v.mapped = identity(v.columns, v.kind), v.known
		return
	}
	got, err := v.ask(ctx, ".show table "+kusto.EntityName(v.in.Table)+" ingestion mappings")
	if err != nil {
		v.add(v.c.named(failed(Finding{ID: "mapping", Input: v.in.Name, Where: v.where()}, err)))
		return
	}
	var document, otherKind, otherCase string
	found := false
	got.Each(func(row map[string]string) {
		sameKind := strings.EqualFold(row["Kind"], v.kind)
		switch {
		case row["Name"] == v.in.Mapping && sameKind:
			document, found = row["Mapping"], true
		case row["Name"] == v.in.Mapping:
			otherKind = row["Kind"]
		case strings.EqualFold(row["Name"], v.in.Mapping) && sameKind:
			otherCase = row["Name"]
		}
	})
	create := "\n" + v.setup()
	if len(v.columns) > 0 {
		create = "\n" + v.createMapping(v.likely(ctx)) + "\n" + clearCache
	}
	what := fmt.Sprintf("there is no mapping %s of kind %s, which format %s needs", v.in.Mapping, v.kind, v.in.Format)
	switch {
	case found:
		v.readMapping(document)
	case v.refused == nil: // of the database, perhaps: it is taken
		v.tell("mapping", OK, "mapping "+v.in.Mapping+" is not one of the table, and is accepted", "")
	case otherCase != "":
		v.told = true
		v.tell("mapping", Error, what+", but one called "+otherCase, "letter case counts: set mapping: "+otherCase)
	case otherKind != "":
		v.told = true
		v.tell("mapping", Error, what+", but one of the same name and kind "+otherKind, "create one of this kind, or set format to one that goes with kind "+otherKind+create)
	default:
		v.told = true
		v.tell("mapping", Error, what, "create it, with what goes into each column"+create)
	}
}

func (v *view) readMapping(document string) {
	all, err := parseMapping(document)
	if err != nil {
		v.tell("mapping", Warning, fmt.Sprintf("mapping %s was not understood: %v", v.in.Mapping, err), "look at it\n.show table "+kusto.EntityName(v.in.Table)+" ingestion mappings")
		return
	}
	v.mapping, v.mapped = all, true
	if len(all) == 0 {
		v.mapping, v.mapped = identity(v.columns, v.kind), v.known
	}
	v.tell("mapping", OK, fmt.Sprintf("mapping %s of kind %s fills %s", v.in.Mapping, v.kind, count(len(v.mapping), "column")), "")
}

// likely are the columns of the table, each from the member that setup would put
// there, else from that of its name.
func (v *view) likely(ctx context.Context) (all []column) {
	guessed := guess(v.sample(ctx, v.in), v.in)
	for _, f := range v.columns {
		c := column{f, f.Name}
		if i := slices.IndexFunc(guessed, func(g column) bool { return g.Name == f.Name }); i >= 0 {
			c = column{f, guessed[i].member}
		}
		all = append(all, c)
	}
	return all
}

// createMapping is the command for a mapping that fills each column from its member
// or by its place.
func (v *view) createMapping(columns []column) string {
	var list []any
	for i, c := range columns {
		path, _ := schema.Path(c.member) // guess leaves out what has none
		properties := map[string]string{"Path": path}
		if v.kind == "Csv" {
			properties = map[string]string{"Ordinal": fmt.Sprint(i)}
		}
		list = append(list, map[string]any{"column": c.Name, "Properties": properties})
	}
	document, _ := json.Marshal(list) // of strings alone
	return fmt.Sprintf(".create-or-alter table %s ingestion %s mapping %s %s", kusto.EntityName(v.in.Table), strings.ToLower(v.kind), kusto.StringLiteral(v.in.Mapping), kusto.TextLiteral(string(document)))
}
