package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/check"
	"kusto-agent/internal/config"
	"kusto-agent/internal/setup"
)

// tableOf is the answer to a command that shows something: columns by name, in rows.
type tableOf []map[string]string

// showing serves what s.server has, but for the commands in answers, which are answered
// with those rows, and for ingestion, which is refused for want of a role: so check has
// to judge by what it reads. A nil tableOf is a refusal.
func (s *site) showing(answers map[string]tableOf) {
	s.t.Helper()
	refuse := func(w http.ResponseWriter, status int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":{"code":"Forbidden","message":"Principal is not authorized","@permanent":true}}`)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/ingest/") {
			refuse(w, http.StatusForbidden)
			return
		}
		text, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		var asked struct{ CSL string }
		_ = json.Unmarshal(text, &asked)
		rows, known := answers[asked.CSL]
		switch {
		case !known:
			s.server.ServeHTTP(w, r)
		case rows == nil:
			refuse(w, http.StatusForbidden)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(rows.table())
		}
	}))
	s.t.Cleanup(server.Close)
	s.url = server.URL
}

// table is the rows in the form of the first version.
func (rows tableOf) table() any {
	var columns []map[string]string
	cells := [][]string{}
	for _, row := range rows {
		var line []string
		columns = nil
		for _, name := range []string{"Name", "Kind", "Mapping", "Policy", "Schema", "TableName"} {
			if v, ok := row[name]; ok {
				columns, line = append(columns, map[string]string{"ColumnName": name, "ColumnType": "string"}), append(line, v)
			}
		}
		cells = append(cells, line)
	}
	if columns == nil {
		columns = []map[string]string{{"ColumnName": "Name", "ColumnType": "string"}}
	}
	return map[string]any{"Tables": []any{map[string]any{"TableName": "Table_0", "Columns": columns, "Rows": cells}}}
}

// missing is what a command says of a state, each in one word.
const (
	lacksTable   = "table"
	lacksMapping = "mapping" // there is none, or members that it does not take
	lacksPolicy  = "policy"
	lacksType    = "type" // a column does not hold what the files have
)

// checked is what check says of the only input, and the commands of its fixes.
func (s *site) checked() (lacks, commands []string) {
	s.t.Helper()
	found, err := check.Run(context.Background(), check.Options{Path: s.path("agent.yaml"), Env: os.LookupEnv})
	s.must(err)
	for _, f := range found {
		word, known := map[string]string{"table": lacksTable, "mapping": lacksMapping, "records.discarded": lacksMapping, "policy": lacksPolicy, "records.null": lacksType}[f.ID]
		if !known || f.Severity == check.OK {
			continue
		}
		lacks = append(lacks, word)
		for _, line := range strings.Split(f.Fix, "\n")[1:] {
			switch { // those that change something; the cache is cleared once, at the end
			case strings.Contains(line, "enable"):
				lacks = append(lacks, lacksPolicy)
				fallthrough
			case strings.Contains(line, ".create"):
				commands = append(commands, line)
			}
			if strings.Contains(line, " mapping ") {
				lacks = append(lacks, lacksMapping)
			}
		}
	}
	slices.Sort(lacks)
	return slices.Compact(lacks), commands
}

// planned is what setup says of it, and its commands.
func (s *site) planned() (lacks, commands []string) {
	s.t.Helper()
	cfg, err := config.Load(s.path("agent.yaml"), os.LookupEnv, config.Options{})
	s.must(err)
	run := setup.Setup{Path: s.path("agent.yaml")}
	plans, err := run.Plans(context.Background(), cfg)
	s.must(err)
	for _, p := range plans {
		for _, note := range p.Notes {
			if strings.Contains(note, "stored as null") {
				lacks = append(lacks, lacksType)
			}
		}
		for _, step := range p.Steps {
			commands = append(commands, step.Text)
			switch {
			case strings.Contains(step.Text, ".create-merge") && len(step.Changes) == 0:
				lacks = append(lacks, lacksTable)
			case strings.Contains(step.Text, " mapping "):
				lacks = append(lacks, lacksMapping)
			case strings.Contains(step.Text, "enable"):
				lacks = append(lacks, lacksPolicy)
			}
		}
	}
	slices.Sort(lacks)
	return slices.Compact(lacks), commands
}

// TestCheckAgreesWithSetup: of one state of the service check and setup say the same:
// what lacks, and which commands make it.
func TestCheckAgreesWithSetup(t *testing.T) {
	t.Parallel()
	const (
		policyOfTable    = ".show table ['T'] policy streamingingestion"
		policyOfDatabase = ".show database ['Logs'] policy streamingingestion"
		columnsOfTable   = ".show table ['T'] schema as json"
		mappingsOfTable  = ".show table ['T'] ingestion mappings"
		ofDatabase       = ".show database ['Logs'] ingestion mappings"
		withMapping      = "mapping: m, format: JSON"
		sound            = `"T": {"columns": "n:long, s:string", "mappings": [{"name": "m", "kind": "Json", "columns": [{"column": "n", "path": "$.n"}, {"column": "s", "path": "$.s"}]}]}`
		unmapped         = `"T": {"columns": "n:long, s:string"}`
		json1            = `{"n":1,"s":"x"}` + "\n"
	)
	policy := func(text string) tableOf { return tableOf{{"Policy": text}} }
	mapping := func(text string) tableOf { return tableOf{{"Name": "m", "Kind": "Json", "Mapping": text}} }
	columns := func(text string) tableOf {
		return tableOf{{"TableName": "T", "Schema": `{"Name":"T","OrderedColumns":[` + text + `]}`}}
	}
	f := func(name, keys, tables, text string, answers map[string]tableOf, want ...string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{Schema: schemaOf(t, inLogs(tables))})
			s.showing(answers)
			s.write("agent.yaml", strings.ReplaceAll(open, "${URL}", s.url)+"inputs: [{paths: [\"${DIR}/logs/*\"], table: T, "+keys+"}]\n")
			s.write("agent.yaml", strings.ReplaceAll(s.read("agent.yaml"), "${DIR}", s.dir))
			s.write("logs/a.log", text)
			lacksByCheck, fix := s.checked()
			lacksBySetup, plan := s.planned()
			slices.Sort(want)
			if !slices.Equal(lacksByCheck, want) || !slices.Equal(lacksBySetup, want) {
				t.Errorf("check says %q lacks, and setup %q; want %q", lacksByCheck, lacksBySetup, want)
			}
			if len(fix) > 0 && !slices.Equal(fix, plan) {
				t.Errorf("check would have\n%s\nand setup\n%s", strings.Join(fix, "\n"), strings.Join(plan, "\n"))
			}
		})
	}
	f("sound", withMapping, sound, json1, nil)
	f("no table", withMapping, `"U": {}`, json1, nil, lacksTable, lacksMapping)
	f("no table, no policy", withMapping, `"U": {}`, json1, map[string]tableOf{policyOfDatabase: policy("null")}, lacksTable, lacksMapping, lacksPolicy)
	f("no table, other members", withMapping, `"U": {}`, `{"a b":1,"it's":"x","d":{"e":1}}`+"\n", nil, lacksTable, lacksMapping)
	f("no table, a header", "format: CSV, header: skip", `"U": {}`, "a,b\n1,x\n", nil, lacksTable)
	f("no mapping", withMapping, unmapped, json1, nil, lacksMapping)
	f("no mapping, another order", withMapping, `"T": {"columns": "s:string, other:long, n:long"}`, json1, nil, lacksMapping)
	f("no mapping, a column less", withMapping, `"T": {"columns": "s:string"}`, json1, nil, lacksMapping)
	f("mapping of the database", withMapping, unmapped, json1, map[string]tableOf{ofDatabase: mapping(`[{"column":"n","Properties":{"Path":"$.n"}},{"column":"s","Properties":{"Path":"$.s"}}]`)})
	f("flat mapping", withMapping, unmapped, json1, map[string]tableOf{mappingsOfTable: mapping(`[{"column":"n","path":"$.n","datatype":null},{"column":"s","path":"$['s']","transform":"None"}]`)})
	f("flat mapping, another type", withMapping, `"T": {"columns": "n:datetime, s:string"}`, json1, map[string]tableOf{mappingsOfTable: mapping(`[{"column":"n","path":"$.n","transform":"None"},{"column":"s","path":"$.s"}]`)}, lacksType)
	f("mapping of all", withMapping, unmapped, json1, map[string]tableOf{mappingsOfTable: mapping(`[{"column":"s","Properties":{"Path":"$"}}]`)})
	f("mapping without paths", withMapping, unmapped, json1, map[string]tableOf{mappingsOfTable: mapping(`[{"column":"s","Properties":{"ConstValue":"x"}},{"column":"n","Properties":{}}]`)}, lacksMapping)
	f("mapping of a member less", withMapping, unmapped, json1, map[string]tableOf{mappingsOfTable: mapping(`[{"column":"n","Properties":{"Path":"$.n"}}]`)}, lacksMapping)
	f("more in the schema", withMapping, sound, json1, map[string]tableOf{columnsOfTable: columns(`{"Name":"n","Type":"System.Int64","CslType":"long","DocString":"x"},{"Name":"s","CslType":"string","Hidden":true}`)})
	f("older policy", withMapping, unmapped, json1, map[string]tableOf{policyOfTable: policy(`{"NumberOfRowStores": 4}`)}, lacksMapping)
	f("older policy of the database", withMapping, unmapped, json1, map[string]tableOf{policyOfTable: policy("null"), policyOfDatabase: policy(`{"NumberOfRowStores": 4, "HintAllocatedRate": null}`)}, lacksMapping)
	f("policy off", withMapping, sound, json1, map[string]tableOf{policyOfTable: policy(`{"IsEnabled": false}`)}, lacksPolicy)
	f("policy off at the database", withMapping, sound, json1, map[string]tableOf{policyOfTable: policy("null"), policyOfDatabase: policy(`{"IsEnabled": false}`)}, lacksPolicy)
	f("policy off at the table alone", withMapping, sound, json1, map[string]tableOf{policyOfTable: policy(`{"IsEnabled": false}`), policyOfDatabase: policy(`{"IsEnabled": true}`)}, lacksPolicy)
	f("policy on at the table alone", withMapping, sound, json1, map[string]tableOf{policyOfTable: policy(`{"IsEnabled": true}`), policyOfDatabase: policy(`{"IsEnabled": false}`)})
	f("no policy", withMapping, sound, json1, map[string]tableOf{policyOfTable: policy(""), policyOfDatabase: policy("null")}, lacksPolicy)
	f("no rows of a policy", withMapping, sound, json1, map[string]tableOf{policyOfTable: {}, policyOfDatabase: policy("null")}, lacksPolicy)
	f("types that hold it", "format: CSV", `"T": {"columns": "a:bool, b:real, c:guid, d:datetime, e:timespan, f:int"}`, "1,2,f80da32c108c415ca19e643f461a677a,1/2/2026,5d,7\n", nil)
	f("types that do not", "format: CSV", `"T": {"columns": "a:int, b:datetime"}`, "99999999999,yesterday\n", nil, lacksType)
	f("members of other types", withMapping, `"T": {"columns": "n:datetime, s:timespan", "mappings": [{"name": "m", "kind": "Json", "columns": [{"column": "n", "path": "$.n"}, {"column": "s", "path": "$.s"}]}]}`, `{"n":1,"s":5}`+"\n", nil, lacksType)
}
