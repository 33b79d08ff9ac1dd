package check

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

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
		v.tell("mapping", Error, what+", but one of the same name and kind "+otherKind, "create one of this kind, or set format to one that goes with kind "+otherKind+"\n"+v.createMapping())
	default:
		v.told = true
		v.tell("mapping", Error, what, "create it, with what goes into each column\n"+v.createMapping())
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

// createMapping is the command for a mapping that fills each column by its name or
// its place.
func (v *view) createMapping() string {
	columns := v.columns
	if len(columns) == 0 {
		columns = []field{{"c", "string"}}
	}
	var list []any
	for i, c := range columns {
		properties := map[string]string{"Path": "$['" + c.Name + "']"}
		if v.kind == "Csv" {
			properties = map[string]string{"Ordinal": fmt.Sprint(i)}
		}
		list = append(list, map[string]any{"column": c.Name, "Properties": properties})
	}
	document, _ := json.Marshal(list) // of strings alone
	return fmt.Sprintf(".create-or-alter table %s ingestion %s mapping %s %s", kusto.EntityName(v.in.Table), strings.ToLower(v.kind), kusto.StringLiteral(v.in.Mapping), kusto.TextLiteral(string(document)))
}
