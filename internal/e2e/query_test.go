package e2e

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
)

const someTables = `{"databases": {"Logs": {"tables": {"T": {"columns": "n:long, s:string, d:dynamic", "mappings": [{"name": "m", "kind": "Json"}]}}}}}`

// TestQueryCommands: what is printed, in each form, and how each failure ends.
func TestQueryCommands(t *testing.T) {
	t.Parallel()
	schema, err := emulator.LoadSchema(strings.NewReader(someTables))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, emulator.Options{Schema: schema})
	s.write("agent.yaml", open+oneJSON)
	s.write("logs/a.json", `{"n":9007199254740993,"s":"a, \"b\"","d":{"x":[1]}}`+"\n"+`{"n":-1,"s":"line\nbreak"}`+"\n")
	s.once(open+oneJSON, 0)
	f := func(code int, want, words string, args ...string) {
		t.Helper()
		out, err := s.show(code, append(args, "--config", s.path("agent.yaml"))...)
		if want = strings.TrimRight(want, "\n"); out != want {
			t.Errorf("%q prints\n%s\nwant\n%s", args, out, want)
		}
		if !strings.Contains(err, words) {
			t.Errorf("%q says %q, want %q", args, err, words)
		}
	}
	byN := "T | order by n asc"
	f(0, "n,s,d\n-1,\"line\nbreak\",\n9007199254740993,\"a, \"\"b\"\"\",\"{\"\"x\"\":[1]}\"\n", "", "query", byN)
	f(0, "{\"n\":-1,\"s\":\"line\\nbreak\",\"d\":null}\n{\"n\":9007199254740993,\"s\":\"a, \\\"b\\\"\",\"d\":{\"x\":[1]}}\n", "", "query", byN, "--format", "json")
	f(0, "               n  s              d\n----------------  -------------  ---------\n              -1  \"line\\nbreak\"  null\n9007199254740993  a, \"b\"         {\"x\":[1]}\n", "",
		"query", byN, "--format", "table")
	f(0, "{\"n\":-1}\n", "", "query", byN+" | project n | take 1", "--json")
	f(0, "{\"TableName\":\"T\"}\n", "", "mgmt", ".show tables | project TableName", "--json")
	for _, way := range [][]string{{"--v1"}, {"--get"}, {"--v1", "--get"}, {"--text-properties"}, {"--option", "results_v2_fragment_primary_tables=true"}, {"--read-only", "--timeout", "1m"}} {
		f(0, "Count\n2\n", "", append([]string{"query", "T | count"}, way...)...)
	}
	f(0, "Count\n1\n", "", "query", "T | where n == x and s == y | count", "--param", "x:long=-1", "--param", "y=line\nbreak")
	f(0, "TableName\nT\n", "", "mgmt", ".show tables | project TableName")
	f(0, "TableName\n", "", "mgmt", ".show tables | where TableName == 'x' | project TableName", "--read-only")

	f(64, "", "use: kusto-agent mgmt", "query", ".show tables")
	f(64, "", "use: kusto-agent query", "mgmt", "T | count")
	f(64, "", "the value is not of the type", "query", "T", "--param", "x:int=a")
	f(64, "", "--timeout 2h: want at most 1h", "query", "T", "--timeout", "2h")
	f(64, "", `--timeout "-1s": negative; want a duration such as`, "mgmt", ".show tables", "--timeout", "-1s")
	f(64, "", "--format and --json exclude each other: give one of them", "query", "T", "--json", "--format", "csv")
	f(64, "", "want table, csv, tsv, json", "query", "T", "--format", "xml")
	f(64, "", `there is no cluster "dr"; the configuration has default`, "query", "T", "--cluster", "dr")
	f(1, "", "SEM0100: Semantic error: 'Nope'", "query", "Nope | count")
	f(1, "", "SEM0100", "query", "Nope | count", "--format", "json-array") // no array, for it would be one of no rows
	f(1, "", "to fix it: a name or a type in the text is not known there", "query", "Nope | count")
	f(1, "", "SYN0002", "query", "T | wher x")
	f(1, "n,s,d\n9007199254740993,\"a, \"\"b\"\"\",\"{\"\"x\"\":[1]}\"\n", "the result is not whole: LimitsExceeded", "query", "T", "--option", "truncationmaxrecords=1")
	f(1, "", "marked as readonly", "mgmt", ".create table U (a:int)", "--read-only")
	s.write("four.kql", "T;\n\n\n.show tables")
	s.write("three.kql", "T | count;\nT | where n < 0 | project n\n\nNope;\nT")
	f(1, "Count\n2\n\nn\n-1\n", "line 4: status 400: ", "query", "--file", s.path("three.kql"))
	f(64, "", "line 4: a text that begins with a dot", "query", "--file", s.path("four.kql"))
	f(0, "n\n-1\n", "1 of 2 rows are not printed, for --max-rows 1", "query", byN+" | project n", "--max-rows", "1")
	f(0, "n:long\n-1\n9007199254740993\n", "", "query", byN+" | project n", "--types", "--option", "results_progressive_enabled=true")
	f(0, "Count\n1\n", "request me.count;7", "query", "T | where n == x | count", "--param", "x:long=-1", "--json-parameters", "--stats", "--request-id", "me.count;7", "--app", "nightly", "--user", "me")
	isMine := func(a emulator.Asked) bool {
		return a.Header.Get("X-Ms-App") == "nightly" && a.Header.Get("X-Ms-User") == "me" && a.Header.Get("X-Ms-Client-Request-Id") == "me.count;7"
	}
	if asked := s.server.Asked(); !slices.ContainsFunc(asked, isMine) {
		t.Errorf("asked: %+v", asked[len(asked)-1])
	}
	f(0, "", "", "query", "T | count", "--output", s.path("out.tsv"))
	if got := s.read("out.tsv"); got != "Count\n2\n" {
		t.Errorf("the file has %q", got)
	}
	s.server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindQuery}, Status: 503, Times: 1})
	f(69, "", "status 503", "query", "T")
	s.server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindQuery}, Status: 403, Times: 1})
	f(77, "", ".add database ['Logs'] viewers", "query", "T")
	s.write("agent.yaml", open+"inputs: [{paths: 7, tabel: T}]\n")
	f(0, "Count\n2\n", "", "query", "T | count")
	if out, err := s.show(0, "query", "T | count", "--cluster", s.url, "--auth", "none", "--database", "Logs"); out != "Count\n2" || err != "" {
		t.Errorf("without a configuration it prints %s and says %s", out, err)
	}
	s.write("agent.yaml", strings.Replace(open, "${URL}", s.deadURL(), 1)+oneJSON)
	f(69, "", "nothing listens there", "query", "T")
	s.write("agent.yaml", "cluster: [\n")
	f(78, "", "agent.yaml:1", "query", "T")
}

// TestQueryStopped: who stops waiting has the service stop, and is told if it could
// not be reached.
func TestQueryStopped(t *testing.T) {
	t.Parallel()
	f := func(says string, faults ...emulator.Fault) {
		t.Helper()
		s := newSite(t, emulator.Options{})
		s.write("agent.yaml", open+oneJSON)
		script := s.server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindQuery}, Hang: true})
		for _, other := range faults {
			s.server.Fail(other)
		}
		p := s.launch("query", "print 1", "--config", s.path("agent.yaml"))
		s.awaitHits(script, 1)
		s.must(p.cmd.Process.Signal(syscall.SIGINT))
		if p.want(exit.Interrupted); !strings.Contains(p.log.text(), says) {
			t.Errorf("it says %s, want %s", p.log.text(), says)
		}
		if len(faults) > 0 {
			return
		}
		isCancel := func(a emulator.Asked) bool { // what hangs is noted when it ends, before or after
			return a.Kind == emulator.KindMgmt && strings.HasPrefix(a.Text, ".cancel query \"kusto-agent.query;")
		}
		if asked := s.server.Asked(); !slices.ContainsFunc(asked, isCancel) {
			t.Errorf("asked: %+v", asked)
		}
	}
	f("was cancelled on the service too")
	f("and may still run there: status 503", emulator.Fault{Match: emulator.Match{Kind: emulator.KindMgmt}, Status: 503})
}
