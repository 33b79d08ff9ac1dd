package emulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/emulator/internal/mgmt"
)

func TestLoadSchemaRefuses(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := mgmt.LoadSchema(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	table := func(t string) string { return `{"databases": {"d": {"tables": {"t": ` + t + `}}}}` }
	f(`{"streming": true}`, `read schema: unknown key "streming"; docs/emulator.md has the keys`)
	f(``, "it is empty")
	f(`{"databases": {`, "ends before it is complete")
	f(`{"databases": x}`, "no JSON at byte 15")
	f(table(`{"columns": 7}`), `columns", at byte`)
	f(`{} {}`, "more than one")
	f(`{"databases": {"d": {}, "D": {}}}`, "case does not count")
	f(`{"databases": {"d": null}}`, `database "d"`)
	f(`{"databases": {"a/b": {}}}`, `database "a/b"`)
	f(table(`null`), `table "d"."t"`)
	f(table(`{"columns": "a"}`), "want name:type")
	f(table(`{"columns": "a:text"}`), "unknown type")
	f(table(`{"columns": "a:int, a:int"}`), "twice")
	f(table(`{"mappings": [{"name": "m", "kind": "Xml"}]}`), "want a name and a kind")
	f(table(`{"mappings": [{"name": "m", "kind": "Json"}, {"name": "m", "kind": "json"}]}`), "twice")
	f(table(`{"mappings": [{"name": "m", "kind": "Json", "columns": [{"column": "a", "path": "$.a"}]}]}`), `no column "a"`)
	f(table(`{"columns": "a:int", "mappings": [{"name": "m", "kind": "Json", "columns": [{"column": "a", "path": "a"}]}]}`), "begin with $")
	f(table(`{"columns": "a:int", "mappings": [{"name": "m", "kind": "Json", "columns": [{"column": "a", "path": "$..a"}]}]}`), "cannot read")
	f(table(`{"columns": "a:int", "mappings": [{"name": "m", "kind": "Json", "columns": [{"column": "a", "ordinal": 1}]}]}`), "want a path")
	f(table(`{"columns": "a:int", "mappings": [{"name": "m", "kind": "Csv", "columns": [{"column": "a", "path": "$.a"}]}]}`), "want an ordinal")
}

func TestSchemaIsSeenLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Schema: loadSchema(t, `{"databases": {"d": {"tables": {"old": {}}}}}`), SchemaDelay: 5 * time.Minute})
		f := func(table string, status int) {
			t.Helper()
			if w := post(s, ingestURL("d", table, "TXT", ""), "x"); w.Code != status {
				t.Errorf("%s: got %d %s", table, w.Code, w.Body)
			}
		}
		f("old", 200)
		if err := s.SetSchema(loadSchema(t, `{"databases": {"d": {"tables": {"new": {}}}}}`)); err != nil {
			t.Fatal(err)
		}
		f("new", 400)
		f("old", 200)
		time.Sleep(5 * time.Minute)
		f("new", 200)
		f("old", 400)
		if err := s.SetSchema(nil); err != nil {
			t.Fatal(err)
		}
		f("old", 400)
		s.ClearSchemaCache()
		f("old", 200)
		if err := s.SetSchema(&Schema{Databases: map[string]*Database{"": {}}}); err == nil {
			t.Error("an unsound schema was taken")
		}
	})
}

// TestAnyDatabase: every database is there, and nothing in it that no command made.
func TestAnyDatabase(t *testing.T) {
	s := New(Options{Schema: &Schema{AnyDatabase: true}})
	f := func(database, table string, status int, says string) {
		t.Helper()
		if w := post(s, ingestURL(database, table, "TXT", ""), "x"); w.Code != status || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s.%s: got %d %s", database, table, w.Code, w.Body)
		}
	}
	command := func(database, text string) {
		t.Helper()
		w := post(s, "/v1/rest/mgmt", fmt.Sprintf(`{"db": %q, "csl": %q}`, database, text))
		if w.Code != 200 {
			t.Fatalf("%s: %d %s", text, w.Code, w.Body)
		}
	}
	f("Logs", "T", 400, "Entity ID 'T' of kind 'Table' was not found")
	f("a/b", "T", 400, "of kind 'Database' was not found")
	command("Logs", ".show tables")
	command("Logs", ".create table T (Line: string)")
	f("Logs", "T", 400, "StreamingIngestionPolicyNotEnabled")
	command("logs", ".alter table T policy streamingingestion enable")
	f("LOGS", "T", 200, "")
	f("Other", "T", 400, "Entity ID 'T' of kind 'Table' was not found")
	if got := s.Tables(); len(got) != 1 || got[0].Database != "Logs" || got[0].Rows != 1 {
		t.Errorf("tables %v", got)
	}
}

func TestMappedRows(t *testing.T) {
	s := New(Options{Schema: loadSchema(t, strictSchema)})
	f := func(format, mapping, body, want string) {
		t.Helper()
		skip := s.RowCount("Logs", "App")
		if w := post(s, ingestURL("logs", "App", format, mapping), body); w.Code != 200 {
			t.Errorf("%s: got %d %s", body, w.Code, w.Body)
			return
		}
		rows := slices.Collect(s.All("Logs", "App", skip))
		if got, err := json.Marshal(rows); err != nil || string(got) != want {
			t.Errorf("%s: got %s %v, want %s", body, got, err, want)
		}
	}
	f("JSON", "m", `{"a":9007199254740993,"b c":["x",1],"z":0}`, `[{"a":9007199254740993,"b":"x"}]`)
	f("JSON", "m", `{"a":"12","b c":[]}`, `[{"a":12,"b":""}]`)
	f("JSON", "m", `{'a': 3, "b c": [{"d": 1}]} // why`, `[{"a":3,"b":"{\"d\": 1}"}]`)
	f("JSON", "id", `{"a":1.5,"b":true,"A":2}`, `[{"a":null,"b":"true"}]`)
	f("MultiJSON", "id", "[{\"a\":1,\n\"b\":null}]", `[{"a":1,"b":""}]`)
	f("CSV", "", "1,\"x\ny\",extra\n2,z,extra", `[{"a":1,"b":"x\ny"},{"a":2,"b":"z"}]`)
	f("CSV", "", "head", `[{"a":null,"b":""}]`)
	f("TSV", "c", "x\t7\t", `[{"a":7,"b":""}]`)
	f("TXT", "", "5\nfive", `[{"a":5,"b":""},{"a":null,"b":""}]`)
}

func TestRowsWithoutColumns(t *testing.T) {
	s := New(Options{})
	f := func(format, body, want string) {
		t.Helper()
		skip := s.RowCount("d", "t")
		post(s, ingestURL("d", "t", format, "m"), body)
		if got, err := json.Marshal(slices.Collect(s.All("d", "t", skip))); err != nil || string(got) != want {
			t.Errorf("%s: got %s %v, want %s", body, got, err, want)
		}
	}
	f("JSON", `{"b": 1, "a": {"x": [1, 2]}}`, `[{"b":1,"a":{"x":[1,2]}}]`)
	f("MultiJSON", "{\n\"a\": 1}{}", `[{"a":1},{}]`)
	f("CSV", "a,\"b,\"\"c\"\n", `[["a","b,\"c"]]`)
	f("TXT", "a,b\n", `[["a,b"]]`)
	if got := slices.Collect(s.All("d", "t", 3))[0].Fields(); !slices.Equal(got, []string{"a", `b,"c`}) {
		t.Errorf("fields: %q", got)
	}
	long := strings.Repeat("x", maxValue+1)
	f("TXT", long, `[["`+long[1:]+`"]]`)
}

func TestConvert(t *testing.T) {
	f := func(typ, in, want string) {
		t.Helper()
		if got := string(convert(typ, json.RawMessage(in))); got != want {
			t.Errorf("%s %s: got %s, want %s", typ, in, got, want)
		}
	}
	f("string", `null`, `""`)
	f("string", `12.50`, `"12.50"`)
	f("string", `"é"`, `"é"`)
	f("string", `"`+strings.Repeat("x", maxValue-1)+`é"`, `"`+strings.Repeat("x", maxValue-1)+`"`)
	f("int", `2147483648`, `null`)
	f("int", `"7"`, `7`)
	f("long", `2147483648`, `2147483648`)
	f("long", `true`, `null`)
	f("real", `1e3`, `1000`)
	f("real", `"NaN"`, `"NaN"`)
	f("real", `"x"`, `null`)
	f("decimal", `"1.10"`, `"1.10"`)
	f("decimal", `"x"`, `null`)
	f("bool", `0`, `false`)
	f("bool", `"True"`, `true`)
	f("bool", `2`, `null`)
	f("guid", `"74BE27DE-1E4E-49D9-B579-FE0B331D3642"`, `"74be27de-1e4e-49d9-b579-fe0b331d3642"`)
	f("guid", `"74be27de"`, `null`)
	f("timespan", `"1.02:03:04.5"`, `"1.02:03:04.5"`)
	f("timespan", `"1.5h"`, `"1.5h"`)
	f("timespan", `"soon"`, `null`)
	f("timespan", `"24:00:00"`, `null`)
	f("real", `"-inf"`, `"-Infinity"`)
	f("real", `1234567`, `1234567`)
	f("datetime", `"2026-01-02T03:04:05.1234567+01:00"`, `"2026-01-02T02:04:05.1234567Z"`)
	f("datetime", `"2026-01-02"`, `"2026-01-02T00:00:00.0000000Z"`)
	f("datetime", `1700000000`, `null`)
	f("datetime", `2020`, `null`)
	f("dynamic", `{"a":1}`, `{"a":1}`)
	f("dynamic", `"text"`, `"text"`)
	f("dynamic", `"`+strings.Repeat("x", maxValue)+`"`, `null`)
	f("long", ``, `null`)
}
