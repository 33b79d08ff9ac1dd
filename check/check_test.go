package check

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"kusto-agent/config"
	"kusto-agent/kusto"
	"kusto-agent/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFits: what a column of each type keeps of a value.
func TestFits(t *testing.T) {
	f := func(kind string, want bool, values ...any) {
		t.Helper()
		for _, v := range values {
			if got := fits(kind, v); got != want {
				t.Errorf("%s takes %#v: %v, want %v", kind, v, got, want)
			}
		}
	}
	n := func(s string) json.Number { return json.Number(s) }
	object := map[string]any{"a": nil}
	for _, kind := range []string{"string", "dynamic", ""} {
		f(kind, true, nil, "x", n("1"), true, object, []any{})
	}
	f("long", true, nil, "", n("9223372036854775807"), n("-1"), n("1e3"), n("1.0"), " 12 ", "0x1f")
	f("long", false, "x", n("9223372036854775808"), n("1.5"), "1.5", object, []any{})
	f("int", true, n("2147483647"), "7")
	f("int", false, n("2147483648"), "many")
	f("real", true, n("1.5"), "1e5", "NaN", "")
	f("real", false, "x", object)
	f("decimal", true, n("1.5"), "1.5")
	f("bool", true, true, n("0"), n("1"), "true", "False", "1")
	f("bool", false, n("2"), "yes", object)
	f("datetime", true, "2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01 00:00:00.1234567", "2026-01-01T00:00:00+01:00", "Thu, 01 Jan 2026 00:00:00 GMT", "")
	f("datetime", false, n("1700000000"), "yesterday", true, object)
	f("timespan", true, "1.02:03:04.5", "00:01:00", "1.5h", n("5"), "10ms")
	f("timespan", false, "long", object)
	f("guid", true, "74be27de-1e4e-49d9-b579-fe0b331d3642")
	f("guid", false, "x", n("1"), object)
}

// TestParseMapping: every form of a mapping's document, and each way of a path.
func TestParseMapping(t *testing.T) {
	f := func(document string, want ...element) {
		t.Helper()
		got, err := parseMapping(document)
		if err != nil || !slices.EqualFunc(got, want, func(a, b element) bool {
			same := slices.Equal(a.path, b.path)
			a.path, b.path = nil, nil
			return same && a.column == b.column && a.kind == b.kind && a.whole == b.whole && a.ordinal == b.ordinal && a.given == b.given && a.transform == b.transform
		}) {
			t.Errorf("%s is %+v, %v; want %+v", document, got, err, want)
		}
	}
	path := func(names ...string) element { return element{column: "c", path: names, ordinal: -1} }
	f(`[{"column":"c","path":"$.a.b","datatype":"","transform":null}]`, path("a", "b"))
	f(`[{"Column":"c","Properties":{"Path":"$['a b'].c"}}]`, path("a b", "c"))
	f(`[{"column":"c","Properties":{"Path":"$[\"a.b\"]"}}]`, path("a.b"))
	f(`[{"column":"c","Properties":{"Field":"a"}}]`, path("a"))
	whole := path("a")
	whole.whole = true
	f(`[{"column":"c","Properties":{"Path":"$.a[0]"}}]`, whole)
	f(`[{"column":"c","Properties":{"Path":"$.a..b"}}]`, whole)
	f(`[{"column":"c","Properties":{"Path":"$['a'].b['c"}}]`, element{column: "c", path: []string{"a", "b"}, whole: true, ordinal: -1})
	f(`[{"column":"c","Properties":{"Path":"$"}}]`, element{column: "c", whole: true, ordinal: -1})
	f(`[{"column":"c","datatype":"datetime","Properties":{"Path":"$.a","Transform":"DateTimeFromUnixSeconds"}}]`,
		element{column: "c", kind: "datetime", path: []string{"a"}, ordinal: -1, transform: "DateTimeFromUnixSeconds"})
	f(`[{"Name":"c","DataType":"int","Ordinal":"3","ConstValue":null},{"column":"d","Properties":{"Ordinal":4}},{"column":"e","Properties":{"ConstValue":"x"}}]`,
		element{column: "c", kind: "int", ordinal: 3}, element{column: "d", ordinal: 4}, element{column: "e", ordinal: -1, given: true})
	f(`[]`)
	for _, bad := range []string{`{}`, `x`, `[{"column":"c","Ordinal":"first"}]`} {
		if _, err := parseMapping(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// TestPasted: the command of a hint comes on a line of its own.
func TestPasted(t *testing.T) {
	f := func(hint, want string) {
		t.Helper()
		if got := pasted(hint); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f("do it: .alter table ['T'] x", "do it\n.alter table ['T'] x")
	f("make it: .create table T (c: string); if it exists and is new: .clear x", "make it\n.create table T (c: string)\nif it exists and is new\n.clear x")
	f("look at send.proxy: or not", "look at send.proxy: or not")
	f("it ends in: .", "it ends in: .")
}

// TestGuess: columns for what a sample holds.
func TestGuess(t *testing.T) {
	f := func(format record.Format, body string, want ...column) {
		t.Helper()
		in := &config.Input{}
		in.Format = format
		if got := guess(&Sample{Body: []byte(body)}, in); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", body, got, want)
		}
	}
	as := func(name, kind, member string) column { return column{field{name, kind}, member} }
	f("JSON", `{"a":1,"b":"x","c":{}}`+"\n"+`{"a":1.5,"b":2,"c":[],"e":"2026-01-01T00:00:00Z"}`,
		as("a", "real", "a"), as("b", "string", "b"), as("c", "dynamic", "c"), as("e", "datetime", "e"))
	f("JSON", `{"":1,"[br]":2,"q\"q":3,"it's":4,"br_":5,"(br]":6,"'\"":7}`,
		as("_", "long", ""), as("_br_", "long", "[br]"), as("q_q", "long", `q"q`), as("it_s", "long", "it's"), as("br_", "long", "br_"), as("_br__2", "long", "(br]"))
	f("CSV", "1,x,,true\n2,y,1.5,false\n", as("Column1", "long", "Column1"), as("Column2", "string", "Column2"), as("Column3", "real", "Column3"), as("Column4", "bool", "Column4"))
	f("JSON", "")
	f("Avro", "")
}

// TestQuoted: a path in a command is one word of a shell, whatever is in it.
func TestQuoted(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := quoted(in); got != want {
			t.Errorf("%q becomes %s, want %s", in, got, want)
		}
	}
	f("/srv/app/a-1.log", "/srv/app/a-1.log")
	f("/srv/a b", "'/srv/a b'")
	f("$(rm x)'", `'$(rm x)'\'''`)
	f("", "''")
}

// TestAs: as the user of the service the kernel refuses what the mode of a file
// does, and only there.
func TestAs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can look as another user")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), "shut")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := FindService(t.Context(), nobody.Username)
	if err != nil || s.name() != "nobody" {
		t.Fatalf("%+v, %v", s, err)
	}
	look := func() (err error) {
		return unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK, unix.AT_EACCESS)
	}
	var inside error
	if err := s.as(func() { inside = look() }); err != nil || inside == nil {
		t.Errorf("as nobody: %v, %v", err, inside)
	}
	if err := look(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if _, err := FindService(t.Context(), "no such user"); err == nil || !strings.Contains(err.Error(), "no such user") {
		t.Errorf("an unknown user: %v", err)
	}
}

// TestStopped: a run that is stopped says so.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte("cluster: http://localhost:1\ndatabase: D\nauth: {method: none}\ninputs: [{paths: [/nowhere/*.csv], table: T}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := Run(ctx, Options{Path: path, Env: os.LookupEnv})
	if err == nil || len(found) == 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestWayFindings: a certificate that ends soon, and a clock that is off.
func TestWayFindings(t *testing.T) {
	f := func(id string, w kusto.Way, want Severity, words string) {
		t.Helper()
		r := new(run)
		r.certificate(&cluster{}, w)
		r.clock(&cluster{}, w)
		if len(r.found) != 1 || r.found[0].ID != id || r.found[0].Severity != want || !strings.Contains(r.found[0].What, words) || (want != OK) != (r.found[0].Fix != "") {
			t.Errorf("found %+v, want %s %s", r.found, want, words)
		}
	}
	until := func(d time.Duration) kusto.Way {
		return kusto.Way{Leaf: &x509.Certificate{NotAfter: time.Now().Add(d)}, TLS: "TLS 1.3"}
	}
	f("network.tls", until(30*24*time.Hour), OK, "TLS 1.3, certificate good until")
	f("network.tls", until(24*time.Hour), Warning, "certificate good until")
	clock := func(ahead time.Duration) kusto.Way { return kusto.Way{Dated: true, Ahead: ahead} }
	f("clock", clock(-time.Second), OK, "agrees")
	f("clock", clock(time.Minute), Warning, "1m0s behind")
	f("clock", clock(-time.Hour), Error, "1h0m0s ahead: tokens are refused")
}

// TestLimits: what is asked for against what is given.
func TestLimits(t *testing.T) {
	cfg := config.DefaultConfig()
	cfg.Limits.OpenFiles = 1000 // any machine gives that
	f := func(s Service, folders int, id string, want Severity, words string) {
		t.Helper()
		r := &run{Options: Options{Service: s}, cfg: &cfg, folders: folders}
		r.limits(t.Context())
		for _, x := range r.found {
			if x.ID == id && x.Severity == want && strings.Contains(x.What+x.Fix, words) {
				return
			}
		}
		t.Errorf("found %+v, want %s %s %s", r.found, id, want, words)
	}
	f(Service{Unit: true, Files: 65536}, 1, "limits.open_files", OK, "LimitNOFILE of the unit allows 65536")
	f(Service{Unit: true, Files: 1024}, 1, "limits.open_files", Error, "\nsystemctl daemon-reload")
	f(Service{Files: 0}, 1, "limits.open_files", OK, "the limit of this shell")
	if kernelNumber("fs/inotify/max_user_watches") > 0 {
		f(Service{}, 1<<40, "limits.inotify", Warning, "sysctl -w fs.inotify.max_user_watches=")
	}
}

// TestAvro: members of records in a container file against the fields of a mapping,
// and columns for them.
func TestAvro(t *testing.T) {
	var file bytes.Buffer
	w, err := ocf.NewWriter(&file, avro.MustParse(`{"type":"record","name":"R","fields":[{"name":"n","type":"long"},{"name":"s","type":"string"},
		{"name":"in","type":{"type":"record","name":"I","fields":[{"name":"a","type":"int"},{"name":"b","type":["null","int"]}]}}]}`))
	if err == nil {
		err = w.Encode(map[string]any{"n": int64(1), "s": "x", "in": map[string]any{"a": int32(1), "b": nil}})
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	in := &config.Input{}
	in.Format = record.Avro
	s := &Sample{Body: file.Bytes()}
	if got, want := guess(s, in), []column{{field{"n", "long"}, "n"}, {field{"s", "string"}, "s"}, {field{"in", "dynamic"}, "in"}}; !slices.Equal(got, want) {
		t.Errorf("guessed %v, want %v", got, want)
	}
	r := new(run)
	v := &view{run: r, in: in, kind: "Avro", columns: []field{{"N", "long"}, {"A", "datetime"}, {"X", "string"}}, mapping: []element{
		{column: "N", path: []string{"n"}}, {column: "A", path: []string{"in", "a"}}, {column: "X", path: []string{"x"}}}}
	v.compare(s)
	if len(r.found) != 2 || !strings.Contains(r.found[0].What, "$.in.b (1), $.s (1)") || !strings.HasSuffix(r.found[1].What, "fills: X") {
		t.Errorf("found %+v", r.found)
	}
	if all := avroRecords([]byte("no container")); all != nil {
		t.Errorf("of no container %v", all)
	}
}
