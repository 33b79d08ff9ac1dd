package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"kusto-agent/emulator"
	"kusto-agent/internal/schema"
)

// strict is an endpoint where nothing exists but the database, and where a change
// is not seen by itself.
func strict(t *testing.T) emulator.Options {
	return emulator.Options{Schema: schemaOf(t, `{"databases":{"Logs": {"streaming": false}}}`), SchemaDelay: time.Hour}
}

// tableText has the rows of a table as JSON, sorted.
func (s *site) tableText(table string) string {
	s.t.Helper()
	var all []string
	for row := range s.server.All("Logs", table, 0) {
		text, err := json.Marshal(row)
		s.must(err)
		all = append(all, string(text))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// changesAsked are the commands that changed something.
func (s *site) changesAsked() (all []string) {
	for _, a := range s.server.Asked() {
		if a.Kind == emulator.KindMgmt && !strings.HasPrefix(a.Text, ".show") {
			all = append(all, a.Text)
		}
	}
	return all
}

// TestSetupFormats: from nothing but files and a database to rows in their columns.
func TestSetupFormats(t *testing.T) {
	t.Parallel()
	f := func(name, keys, file, text, columns, mapping, rows string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, strict(t))
			config := open + fmt.Sprintf("inputs: [{paths: [\"${DIR}/logs/*\"], table: T, %s}]\n", keys)
			s.write("agent.yaml", config)
			s.write("logs/"+file, text)
			out, words := s.show(0, "setup", "--config", s.path("agent.yaml"))
			want := "// database Logs of " + s.url + "\n.create-merge table ['T'] (" + columns + ")\n"
			if mapping != "" {
				want += ".create-or-alter table ['T'] ingestion " + mapping + "\n"
			}
			want += ".alter table ['T'] policy streamingingestion enable\n" + schema.ClearCache
			if out != want || !strings.Contains(words, "T: the service takes its records") {
				t.Fatalf("it prints\n%s\nwant\n%s\nand says %s", out, want, words)
			}
			n := len(s.changesAsked())
			out, words = s.show(0, "setup", "--config", s.path("agent.yaml"))
			if out != "" || !strings.Contains(words, "nothing to do") || len(s.changesAsked()) != n {
				t.Errorf("again it prints %s and says %s, and changes %q", out, words, s.changesAsked()[n:])
			}
			s.once(config, 0)
			if got := s.tableText("T"); got != rows {
				t.Errorf("rows\n%s\nwant\n%s", got, rows)
			}
		})
	}
	f("JSON", "mapping: T_json, format: JSON", "a.json",
		`{"ts":"2026-03-01T12:00:00Z","n":1,"a b":true,"it's":null,"d":{"x":[1]}}`+"\n"+`{"ts":"","n":2.5,"a b":null,"it's":"x"}`+"\n",
		"['ts']:datetime, ['n']:real, ['a b']:bool, ['it_s']:string, ['d']:dynamic",
		`json mapping "T_json" '[{"column":"ts","datatype":"datetime","Properties":{"Path":"$.ts"}},{"column":"n","datatype":"real","Properties":{"Path":"$.n"}},{"column":"a b","datatype":"bool","Properties":{"Path":"$[\'a b\']"}},{"column":"it_s","datatype":"string","Properties":{"Path":"$[\\"it\'s\\"]"}},{"column":"d","datatype":"dynamic","Properties":{"Path":"$.d"}}]'`,
		`{"ts":"2026-03-01T12:00:00.0000000Z","n":1,"a b":true,"it_s":"","d":{"x":[1]}}`+"\n"+`{"ts":null,"n":2.5,"a b":null,"it_s":"x","d":null}`)
	f("CSV", "header: skip, format: CSV", "a.csv", "time,took,user name,zip\n2026-03-01 12:00:00,5,a,00123\n,,\"b\nc\",\n",
		"['time']:datetime, ['took']:long, ['user name']:string, ['zip']:string", "", `{"time":"2026-03-01T12:00:00.0000000Z","took":5,"user name":"a","zip":"00123"}`+"\n"+`{"time":null,"took":null,"user name":"b\nc","zip":""}`)
	f("TSV", "mapping: 'T tsv', format: TSV", "a.tsv", "1\t2.5\tx\n2\t3\ty\n", "['Column1']:long, ['Column2']:real, ['Column3']:string",
		`csv mapping "T tsv" '[{"column":"Column1","datatype":"long","Properties":{"Ordinal":"0"}},{"column":"Column2","datatype":"real","Properties":{"Ordinal":"1"}},{"column":"Column3","datatype":"string","Properties":{"Ordinal":"2"}}]'`, `{"Column1":1,"Column2":2.5,"Column3":"x"}`+"\n"+`{"Column1":2,"Column2":3,"Column3":"y"}`)
	f("TXT", "format: TXT", "a.log", "one\ntwo, three\n", "['Line']:string", "", `{"Line":"one"}`+"\n"+`{"Line":"two, three"}`)
	f("text", "mapping: m, parse: text, fields: {offset: \"{offset}\", env: prod}", "a.log", "one\ntwo\n", "['message']:string, ['env']:string, ['offset']:long",
		`json mapping "m" '[{"column":"message","datatype":"string","Properties":{"Path":"$.message"}},{"column":"env","datatype":"string","Properties":{"Path":"$.env"}},{"column":"offset","datatype":"long","Properties":{"Path":"$.offset"}}]'`, `{"message":"one","env":"prod","offset":0}`+"\n"+`{"message":"two","env":"prod","offset":4}`)
	f("regex", `mapping: m, parse: regex, pattern: '^(?P<time>\S+ \S+) (?P<n>\S+) (?P<message>.*)', types: {n: long}, time: {layout: "2006/01/02 15:04:05", zone: utc}, on_error: drop`, "a.log",
		"2026/03/01 12:00:00 7 one\n2026/03/01 12:00:00 - 2026-03-01\nno\n", "['time']:datetime, ['n']:long, ['message']:string",
		`json mapping "m" '[{"column":"time","datatype":"datetime","Properties":{"Path":"$.time"}},{"column":"n","datatype":"long","Properties":{"Path":"$.n"}},{"column":"message","datatype":"string","Properties":{"Path":"$.message"}}]'`,
		`{"time":"2026-03-01T12:00:00.0000000Z","n":7,"message":"one"}`+"\n"+`{"time":"2026-03-01T12:00:00.0000000Z","n":null,"message":"2026-03-01"}`)
	f("docker", "mapping: m, parse: docker", "a.log", `{"log":"hello\n","stream":"stdout","time":"2026-03-01T12:00:00.5Z"}`+"\n", "['time']:datetime, ['stream']:string, ['message']:string",
		`json mapping "m" '[{"column":"time","datatype":"datetime","Properties":{"Path":"$.time"}},{"column":"stream","datatype":"string","Properties":{"Path":"$.stream"}},{"column":"message","datatype":"string","Properties":{"Path":"$.message"}}]'`, `{"time":"2026-03-01T12:00:00.5000000Z","stream":"stdout","message":"hello"}`)
	f("MultiJSON", "mapping: m, format: MultiJSON", "a.json", "[{\"n\": 1},\n{\"n\": 18446744073709551615, \"a.b\": 1.0}]\n{\"id\": \"f80da32c-108c-415c-a19e-643f461a677a\"}\n", "['n']:decimal, ['a.b']:real, ['id']:guid",
		`json mapping "m" '[{"column":"n","datatype":"decimal","Properties":{"Path":"$.n"}},{"column":"a.b","datatype":"real","Properties":{"Path":"$[\'a.b\']"}},{"column":"id","datatype":"guid","Properties":{"Path":"$.id"}}]'`,
		`{"n":"1","a.b":null,"id":null}`+"\n"+`{"n":"18446744073709551615","a.b":1,"id":null}`+"\n"+`{"n":null,"a.b":null,"id":"f80da32c-108c-415c-a19e-643f461a677a"}`)
	f("Avro", "mapping: m, format: Avro", "a.avro", logicalAvro(t), "['at']:datetime, ['d']:datetime, ['t']:timespan, ['price']:decimal, ['id']:guid, ['n']:long, ['x']:real, ['kind']:string, ['tags']:dynamic, ['again']:string, ['maybe']:dynamic",
		`avro mapping "m" '[{"column":"at","datatype":"datetime","Properties":{"Path":"$.at"}},{"column":"d","datatype":"datetime","Properties":{"Path":"$.d"}},{"column":"t","datatype":"timespan","Properties":{"Path":"$.t"}},{"column":"price","datatype":"decimal","Properties":{"Path":"$.price"}},{"column":"id","datatype":"guid","Properties":{"Path":"$.id"}},{"column":"n","datatype":"long","Properties":{"Path":"$.n"}},{"column":"x","datatype":"real","Properties":{"Path":"$.x"}},{"column":"kind","datatype":"string","Properties":{"Path":"$.kind"}},{"column":"tags","datatype":"dynamic","Properties":{"Path":"$.tags"}},{"column":"again","datatype":"string","Properties":{"Path":"$.again"}},{"column":"maybe","datatype":"dynamic","Properties":{"Path":"$.maybe"}}]'`,
		`{"at":"2026-03-01T12:00:00.0000000Z","d":"2026-03-01T00:00:00.0000000Z","t":"12:00:00","price":"1.25","id":"f80da32c-108c-415c-a19e-643f461a677a","n":7,"x":null,"kind":"A","tags":["a"],"again":"B","maybe":{"note":"in"}}`)
}

// logicalAvro is a container file of one record with types of many kinds.
func logicalAvro(t *testing.T) string {
	t.Helper()
	const text = `{"type":"record","name":"R","namespace":"n","fields":[
		{"name":"at","type":["null",{"type":"long","logicalType":"timestamp-micros"}]},
		{"name":"d","type":{"type":"int","logicalType":"date"}},
		{"name":"t","type":{"type":"int","logicalType":"time-millis"}},
		{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
		{"name":"id","type":{"type":"string","logicalType":"uuid"}},
		{"name":"n","type":"int"},
		{"name":"x","type":["null","double"]},
		{"name":"kind","type":{"type":"enum","name":"K","symbols":["A","B"]}},
		{"name":"tags","type":{"type":"array","items":"string"}},
		{"name":"again","type":["null","n.K"]},
		{"name":"maybe","type":["null",{"type":"record","name":"In","fields":[{"name":"note","type":"string"}]}]}]}`
	var out bytes.Buffer
	w, err := ocf.NewWriter(&out, avro.MustParse(text))
	if err == nil {
		err = w.Encode(map[string]any{
			"at": time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), "d": time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), "t": 12 * time.Hour, "price": big.NewRat(5, 4),
			"id": "f80da32c-108c-415c-a19e-643f461a677a", "n": int32(7), "x": nil, "kind": "A", "tags": []any{"a"}, "again": "B", "maybe": map[string]any{"note": "in"},
		})
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSetupMerges: what is there stays, what is missing is added after a question,
// and what does not fit is told.
func TestSetupMerges(t *testing.T) {
	t.Parallel()
	o := emulator.Options{SchemaDelay: time.Hour, Schema: schemaOf(t, `{"databases":{"Logs":{"streaming":true,"tables":{"T":{"columns":"when:datetime, n:datetime, gone:string, log:dynamic",
		"mappings":[{"name":"m","kind":"Json","columns":[{"column":"when","path":"$.ts"},{"column":"gone","path":"$.Gone"},{"column":"log","path":"$.log.level"}]}]}}}}}`)}
	s := newSite(t, o)
	config := open + "inputs: [{paths: [\"${DIR}/logs/*.json\"], table: T, mapping: m}, {paths: [\"${DIR}/logs/*.csv\"], table: T, name: rows}, {paths: [\"${DIR}/none/*.csv\"], table: U}]\n"
	s.write("agent.yaml", config)
	s.write("logs/a.json", `{"ts":"2026-03-01","n":1,"gone":"x","log":{"level":"info"},"when":true}`+"\n")
	s.write("logs/a.csv", "2026-03-01,2026-03-01,x,{},5,true,7\n")
	f := func(code int, want string, says []string, flags ...string) {
		t.Helper()
		out, words := s.show(code, append([]string{"setup", "--config", s.path("agent.yaml")}, flags...)...)
		if s.is(out, strings.ReplaceAll(want, "URL", s.url)); t.Failed() {
			t.Log(words)
		}
		for _, w := range says {
			if !strings.Contains(words, w) {
				t.Errorf("%q does not say %q: %s", flags, w, words)
			}
		}
	}
	commands := `
		// database Logs of URL
		.create-merge table ['T'] (['when_2']:bool)
		.create-or-alter table ['T'] ingestion json mapping "m" '[{"column":"when","Properties":{"Path":"$.ts"}},{"column":"gone","datatype":"string","Properties":{"Path":"$.gone"}},{"column":"log","Properties":{"Path":"$.log.level"}},{"column":"n","datatype":"datetime","Properties":{"Path":"$.n"}},{"column":"when_2","datatype":"bool","Properties":{"Path":"$.when"}}]'
		.create-merge table ['T'] (['Column6']:bool, ['Column7']:long)`
	diff := []string{
		"T: column n is datetime, and the files have long for it", "table T: + column when_2:bool", "mapping m: column gone from $.gone, so far from $.Gone", "mapping m: + column n from $.n",
		"rows: column when_2 is bool, and the files have long for it", "U: there is no sample to tell its columns from: no file matches its paths", "preview U",
	}
	f(64, "", append(diff, "nothing was done", "--dry-run", "--yes"))
	commands += "\n\t\t" + schema.ClearCache
	f(1, commands, diff, "--dry-run")
	if n := s.changesAsked(); len(n) > 0 {
		t.Fatalf("it has changed something: %q", n)
	}
	f(1, commands, diff, "--yes")
	f(0, "", []string{"nothing to do", "T: the service takes its records", "rows: the service takes its records"}, "--input", "T", "--input", "rows")
	f(1, "", []string{"U: there is no sample", "nothing to do for the other inputs"})
	f(1, "", []string{"U: there is no sample"}, "--input", "U")
	if _, words := s.show(1, "setup", "--config", s.path("agent.yaml"), "--input", "U"); strings.Contains(words, "nothing to do") {
		t.Errorf("there is no table U, and it says %s", words)
	}
	f(64, "", []string{`there is no input "x"; the configuration has T, rows, U`}, "--input", "x")
	f(64, "", []string{"want a principal"}, "--grant", "me")
	cleared := 0
	for _, c := range s.changesAsked() {
		if c == schema.ClearCache {
			cleared++
		}
	}
	if cleared != 1 {
		t.Errorf("the cache was cleared %d times", cleared)
	}
	s.once(config, 0)
	s.is(s.tableText("T"), `
		{"when":"2026-03-01T00:00:00.0000000Z","n":"2026-03-01T00:00:00.0000000Z","gone":"x","log":{},"when_2":null,"Column6":true,"Column7":7}
		{"when":"2026-03-01T00:00:00.0000000Z","n":null,"gone":"x","log":"info","when_2":true,"Column6":null,"Column7":null}`)
}

// TestSetupGrants: who may not write is let to, by name or when the probe tells.
func TestSetupGrants(t *testing.T) {
	t.Parallel()
	o := emulator.Options{SchemaDelay: time.Hour, TokenSecret: "zq-secret", Schema: schemaOf(t, `{"databases":{"Logs":{"streaming":false,"ingestors":["somebody"],"viewers":["agent"]}}}`)}
	s := newSite(t, o)
	config := head + "auth: {authority: \"${URL}\", tenant: t, client_id: agent, client_secret: \"${SECRET}\"}\n" + oneText
	s.env = []string{"SECRET=zq-secret"}
	s.write("agent.yaml", config)
	s.write("logs/a.log", "one\n")
	grant := ".add table ['Text'] ingestors ('aadapp=agent;t')"
	out, words := s.show(0, "setup", "--dry-run", "--config", s.path("agent.yaml"))
	if !strings.HasSuffix(out, "enable\n"+schema.ClearCache) || !strings.Contains(words, "where the identity of the agent may not write there yet: "+grant) {
		t.Errorf("it prints %s and says %s", out, words)
	}
	if ran, _ := s.show(0, "setup", "--config", s.path("agent.yaml")); ran != out+"\n"+grant+"\n"+schema.ClearCache {
		t.Errorf("it prints %s", ran)
	}
	if out, _ = s.show(0, "setup", "--config", s.path("agent.yaml")); out != "" {
		t.Errorf("again it prints %s", out)
	}
	other := []string{"setup", "--config", s.path("agent.yaml"), "--grant", "aadapp=other;t"}
	if out, _ = s.show(0, other...); !strings.HasSuffix(out, "\n.add table ['Text'] ingestors ('aadapp=other;t')\n.add database ['Logs'] viewers ('aadapp=other;t')\n"+schema.ClearCache) {
		t.Errorf("it prints %s", out)
	}
	if out, _ = s.show(0, other...); out != "" {
		t.Errorf("again it prints %s", out)
	}
	s.once(config, 0)
	s.wantRows("Text", []string{"one"})
}

// TestSetupWaits: for nodes that have not seen the change, and not for what waiting
// does not mend.
func TestSetupWaits(t *testing.T) {
	t.Parallel()
	s := newSite(t, strict(t))
	s.write("agent.yaml", open+oneText)
	s.write("logs/a.log", "one\ntwo\n")
	fault := func(f emulator.Fault) {
		f.Match.Kind, f.When, f.Times = emulator.KindIngest, emulator.OnArrival, 1
		s.server.Fail(f)
	}
	fault(emulator.Fault{Status: 400, Code: "BadRequest_EntityNotFound", Message: "Entity ID 'Text' of kind 'Table' was not found."})
	s.server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindMgmt}, Skip: 4, Times: 1, Status: 200, Type: "application/json",
		Body: `{"Tables":[{"TableName":"Table_0","Columns":[{"ColumnName":"NodeId","ColumnType":"string"},{"ColumnName":"Status","ColumnType":"string"}],"Rows":[["a","Succeeded"],["b","Failed"]]}]}`})
	_, words := s.show(0, "setup", "--config", s.path("agent.yaml"), "--probe-record")
	for _, want := range []string{"Text: 1 of 2 nodes have not looked", "Text: not seen yet: status 400", "Text: the service takes its records", "Text: its first record is stored and can be queried"} {
		if !strings.Contains(words, want) {
			t.Errorf("it does not say %q: %s", want, words)
		}
	}
	s.wantRows("Text", []string{"one"})
	fault(emulator.Fault{Status: 404, Code: "NotFound", Message: "x"})
	s.show(1, "setup", "--config", s.path("agent.yaml"))
	fault(emulator.Fault{Status: 403, Code: "Forbidden", Message: "x"})
	s.show(77, "setup", "--config", s.path("agent.yaml"))
	fault(emulator.Fault{Status: 400, Code: "BadRequest_EntityNotFound", Message: "x"})
	_, words = s.show(1, "setup", "--config", s.path("agent.yaml"), "--wait", "10ms")
	if !strings.Contains(words, "the service did not see the changes within 10ms; run setup again to continue") {
		t.Errorf("it says %s", words)
	}
}

// TestSetupShared: inputs of one table and one mapping do not take columns from
// each other.
func TestSetupShared(t *testing.T) {
	t.Parallel()
	s := newSite(t, strict(t))
	config := open + "inputs: [{paths: [\"${DIR}/a.json\"], table: T, mapping: m}, {paths: [\"${DIR}/b.json\"], table: T, mapping: m, name: b, batch: {}}]\n"
	s.write("agent.yaml", config)
	s.write("a.json", `{"x!":1,"y":1}`+"\n")
	s.write("b.json", `{"x?":2,"y":2.5}`+"\n")
	out, _ := s.show(0, "setup", "--config", s.path("agent.yaml"))
	if strings.Count(out, ".create-merge") != 2 || !strings.Contains(out, "['y']:real") {
		t.Errorf("it prints %s", out)
	}
	if out, _ = s.show(0, "setup", "--config", s.path("agent.yaml")); out != "" {
		t.Errorf("again it prints %s", out)
	}
	s.once(config, 0)
	s.is(s.tableText("T"), `
		{"x_":1,"y":1,"x__2":null}
		{"x_":null,"y":2.5,"x__2":2}`)
}

// TestSetupDatabases: each has its commands under one heading, whatever the order of
// the inputs and the case its name is written in.
func TestSetupDatabases(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{SchemaDelay: time.Hour, TokenSecret: "zq-secret", Schema: schemaOf(t, `{"databases":{"Logs":{"streaming":true},"More":{"streaming":true}}}`)})
	s.env = []string{"SECRET=zq-secret"}
	s.write("agent.yaml", head+`auth: {authority: "${URL}", tenant: t, client_id: agent, client_secret: "${SECRET}"}
inputs:
  - {paths: ["${DIR}/a.json"], table: T, mapping: m}
  - {paths: ["${DIR}/a.json"], table: U, mapping: m, database: More}
  - {paths: ["${DIR}/b.json"], table: T, mapping: n, database: LOGS, name: b}
`)
	s.write("a.json", `{"x":1}`+"\n")
	s.write("b.json", `{"x":"one","y":2}`+"\n")
	out, _ := s.show(0, "setup", "--dry-run", "--config", s.path("agent.yaml"))
	s.is(strings.ReplaceAll(out, s.url, "URL"), `
		// database Logs of URL
		.create-merge table ['T'] (['x']:long)
		.create-or-alter table ['T'] ingestion json mapping "m" '[{"column":"x","datatype":"long","Properties":{"Path":"$.x"}}]'
		.create-merge table ['T'] (['y']:long)
		.create-or-alter table ['T'] ingestion json mapping "n" '[{"column":"x","datatype":"long","Properties":{"Path":"$.x"}},{"column":"y","datatype":"long","Properties":{"Path":"$.y"}}]'
		`+schema.ClearCache+`
		// database More of URL
		.create-merge table ['U'] (['x']:long)
		.create-or-alter table ['U'] ingestion json mapping "m" '[{"column":"x","datatype":"long","Properties":{"Path":"$.x"}}]'
		`+schema.ClearCache)
	if ran, _ := s.show(0, "setup", "--config", s.path("agent.yaml")); ran != out {
		t.Errorf("a run prints\n%s\nand --dry-run\n%s", ran, out)
	}
	if out, _ := s.show(0, "setup", "--config", s.path("agent.yaml")); out != "" {
		t.Errorf("again it prints %s", out)
	}
}
