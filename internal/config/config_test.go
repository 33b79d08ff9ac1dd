package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

const top = `cluster: HTTPS://C.WestEurope.kusto.windows.net:443/
database: Logs
auth: {tenant: t, client_id: c, client_secret_file: /f}
`

func load(t *testing.T, text string, env ...string) *Config {
	t.Helper()
	c, err := Parse("agent.yaml", []byte(text), environ(env...), Options{})
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return c
}

func trace(t *testing.T, text string, env ...string) Traced {
	t.Helper()
	c, err := ParseTraced("agent.yaml", []byte(text), environ(env...), Options{})
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return c
}

// told is what is said of text: the paths and messages, one a line.
func told(t *testing.T, name, text string, env ...string) string {
	t.Helper()
	_, err := Parse(name, []byte(text), environ(env...), Options{})
	if err == nil {
		return ""
	}
	var all *Errors
	if !errors.As(err, &all) {
		t.Fatalf("got %T", err)
	}
	var b strings.Builder
	for _, p := range all.Problems {
		b.WriteString(p.Path + ": " + p.Message + "\n")
	}
	return b.String()
}

func TestInputsInherit(t *testing.T) {
	c := load(t, top+`
batch: {max_size: 2MB, max_wait: 3s}
inputs:
  - {paths: /srv/a.json, table: A, mapping: m}
  - {name: b, paths: [/srv/**/b.csv], table: A, database: Other, batch: {max_wait: 5s, max_records: 7}, header: skip}
  - {paths: ["/srv/*.{log,txt}", "/srv/*.log.gz", "/srv/*.txt{,.gz,.zst}"], table: C, cluster: dr, compression: none, batch: {max_size: 512KiB}}
  - {paths: /srv/d.data, table: D, cluster: default, format: scsv}
clusters:
  dr: {url: "https://dr.kusto.windows.net", database: Dr, auth: {method: token_file, token_file: token}}
  third: {url: "https://third.kusto.windows.net"}
`)
	url := "https://c.westeurope.kusto.windows.net"
	want := []record.Route{
		{Cluster: url, Database: "Logs", Table: "A", Format: record.JSON, Mapping: "m"},
		{Cluster: url, Database: "Other", Table: "A", Format: record.CSV},
		{Cluster: "https://dr.kusto.windows.net", Database: "Dr", Table: "C", Format: record.TXT},
		{Cluster: url, Database: "Logs", Table: "D", Format: record.SCsv},
	}
	for i, in := range c.Inputs {
		if in.Route() != want[i] {
			t.Errorf("input %d goes to %+v; want %+v", i, in.Route(), want[i])
		}
	}
	a, b, third := c.Inputs[0], c.Inputs[1], c.Inputs[2]
	if a.Name != "A" || a.Compression != "gzip" || a.Batch.MaxSize != 2e6 || a.Batch.MaxWait.D() != 3*time.Second {
		t.Errorf("first input: %+v", a)
	}
	if of := b.Tail(); of.MaxSize != 2e6 || of.MaxRecords != 7 || of.MaxWait != 5*time.Second {
		t.Errorf("for the tailer: %+v", of)
	}
	if b.Name != "b" || b.Batch.MaxSize != 2e6 || b.Batch.MaxRecords != 7 || b.Batch.MaxWait.D() != 5*time.Second || b.Batch.GzipLevel != 1 {
		t.Errorf("second input: %+v", b)
	}
	if third.Compression != "none" || third.MaxRecordSize != 512<<10 {
		t.Errorf("third input: %+v", third)
	}
	if auth := c.Clusters["dr"].Auth; auth.Method != "token_file" || auth.Tenant != "" || !filepath.IsAbs(auth.TokenFile) {
		t.Errorf("auth replaces and does not merge; got tenant %q, file %q", auth.Tenant, auth.TokenFile)
	}
	if got := c.Clusters["third"]; got.Auth != c.Clusters[DefaultCluster].Auth || got.Auth.Method != "client_secret" || got.Database != "Logs" {
		t.Errorf("a cluster without auth has that of the top level; got %+v", got)
	}
}

// TestClusterURL: the URL of a cluster is spelled in one way, in the configuration and in a flag.
func TestClusterURL(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		if got := ClusterURL(raw); got != want {
			t.Errorf("%q becomes %q, want %q", raw, got, want)
		}
		if got := load(t, "cluster: "+raw+"\ndatabase: D\ninputs: [{paths: /a.csv, table: A}]").Clusters[DefaultCluster].URL; got != want {
			t.Errorf("%q is loaded as %q, want %q", raw, got, want)
		}
	}
	f("http://127.0.0.1:18080/", "http://127.0.0.1:18080")
	f("http://127.0.0.1:18080", "http://127.0.0.1:18080")
	f("HTTPS://C.Kusto.Windows.Net:443//", "https://c.kusto.windows.net")
	f("http://localhost:443/", "http://localhost:443")
	if got := ClusterURL("%"); got != "%" {
		t.Errorf("what is no URL becomes %q", got)
	}
}

// A format has one spelling, however it is written, and asks for a mapping where
// the service does.
func TestFormats(t *testing.T) {
	for _, spec := range format.All() {
		for _, name := range []string{string(spec.Format), strings.ToLower(string(spec.Format)), strings.ToUpper(string(spec.Format))} {
			input := "inputs: [{paths: /srv/a, table: A, format: " + name
			if in := load(t, top+input+", mapping: m}]").Inputs[0]; in.Format != spec.Format || in.Mapping != "m" {
				t.Errorf("%s is %s with mapping %q", name, in.Format, in.Mapping)
			}
			want := ""
			if spec.NeedsMap {
				want = "inputs[0].mapping: missing; format " + string(spec.Format) + " needs the name of a"
			}
			if got := told(t, "agent.yaml", top+input+"}]"); (got == "") != (want == "") || !strings.HasPrefix(got, want) {
				t.Errorf("%s without a mapping: %q, want %q", name, got, want)
			}
		}
	}
}

func TestPlacesOfFiles(t *testing.T) {
	here, err := filepath.Abs("x")
	if err != nil {
		t.Fatal(err)
	}
	f := func(file, want string, env ...string) {
		t.Helper()
		c := load(t, "cluster: https://c.kusto.windows.net\ndatabase: d\nauth: {tenant: t, client_id: c, client_secret_file: "+file+"}\ninputs: [{paths: /a.csv, table: A}]", env...)
		if got := c.Clusters[DefaultCluster].Auth.ClientSecretFile; got != want {
			t.Errorf("%s is at %s; want %s", file, got, want)
		}
	}
	f("/etc/s", "/etc/s", "CREDENTIALS_DIRECTORY", "/run/cred")
	f("s", "/run/cred/s", "CREDENTIALS_DIRECTORY", "/run/cred")
	f("./s", filepath.Join(filepath.Dir(here), "s"), "CREDENTIALS_DIRECTORY", "/run/cred")
	f("s", filepath.Join(filepath.Dir(here), "s"))
	f("d/s", filepath.Join(filepath.Dir(here), "d/s"))
}

func TestStateDir(t *testing.T) {
	f := func(line, want string, env ...string) {
		t.Helper()
		c := load(t, line+"\n"+top+"inputs: [{paths: /a.csv, table: A}]", env...)
		if c.StateDir != want || c.Spool.Dir != filepath.Join(want, "spool") {
			t.Errorf("state is in %s, spool in %s; want %s", c.StateDir, c.Spool.Dir, want)
		}
	}
	f("", "kusto-agent-state")
	f("", "/var/lib/a", "STATE_DIRECTORY", "/var/lib/a:/var/lib/b")
	f("state_dir: /x/", "/x", "STATE_DIRECTORY", "/var/lib/a")
	f("state_dir: ${DIR:-/y}", "/y")
}

func TestOneClusterByNameAlone(t *testing.T) {
	clusters := "database: d\nclusters: {here: {url: 'http://127.0.0.1:8080/', auth: {method: none}}}\n"
	c := load(t, clusters+"inputs: [{paths: /a.csv, table: A, cluster: here}]")
	if c.Inputs[0].ClusterURL != "http://127.0.0.1:8080" || c.Inputs[0].Database != "d" {
		t.Errorf("got %+v", c.Inputs[0])
	}
	if got, want := told(t, "agent.yaml", clusters+"inputs: [{paths: /a.csv, table: A}]"), "inputs[0].cluster: missing; the top level has no cluster, so want here\n"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

// Names that could lead elsewhere are refused wherever they can stand, each
// where it stands and by what is wrong with it, and no other part of the file.
func TestHostileNames(t *testing.T) {
	places := map[string]string{
		"database":            "database: NAME\ncluster: https://c.kusto.windows.net\nauth: {tenant: t, client_id: c, client_secret_file: /f}\ninputs: [{paths: /a.csv, table: T}]\n",
		"inputs[0].database":  top + "inputs: [{paths: /a.csv, table: T, database: NAME}]\n",
		"inputs[0].table":     top + "inputs: [{paths: /a.csv, table: NAME}]\n",
		"inputs[0].mapping":   top + "inputs: [{paths: /a.csv, table: T, mapping: NAME}]\n",
		"inputs[0].name":      top + "inputs: [{paths: /a.csv, table: T, name: NAME}]\n",
		"clusters.x.database": top + "inputs: [{paths: /a.csv, table: T}]\nclusters: {x: {url: 'https://x.kusto.windows.net', database: NAME}}\n",
	}
	headers := map[string]string{
		"app":  top + "app: NAME\ninputs: [{paths: /a.csv, table: T}]\n",
		"user": top + "user: NAME\ninputs: [{paths: /a.csv, table: T}]\n",
	}
	f := func(where map[string]string, name, want string) {
		t.Helper()
		for path, text := range where {
			got := told(t, "agent.yaml", strings.ReplaceAll(text, "NAME", "'${EVIL}'"), "EVIL", name)
			if strings.Contains(name, "\x00") {
				want = "a NUL character in the value; remove it"
			}
			if got != path+": "+want+"\n" {
				t.Errorf("%q as %s: told %q; want %q", name, path, got, want)
			}
		}
	}
	const allowed = " is not allowed in a name; letters, digits, underscore, space, dot and dash are"
	for _, name := range []string{".", ".."} {
		f(places, name, "not a name but a step in a path; want a name with a letter or digit in it")
	}
	for name, sign := range map[string]string{
		"a/b": "'/'", "../b": "'/'", `a\b`: `'\\'`, "a%2fb": "'%'", "a?b": "'?'", "a#b": "'#'", "a\r\nb": `'\r'`, "a\u202eb": `'\u202e'`,
		"\u200fa": `'\u200f'`, "a\x1b[31m": `'\x1b'`, `a": b`: `'"'`, "a'b": `'\''`, "a\x00b": "",
	} {
		f(places, name, sign+allowed)
	}
	f(places, "  ", "the name is blank; want at least one letter or digit")
	f(places, strings.Repeat("x", 2048), "the name has 2048 characters, at most 1024 are allowed")
	const header = "not fit for a header; want up to 256 ASCII letters, digits and signs"
	for _, value := range []string{"a\r\nb", "a\nX-Evil: 1", "a\u202eb", "a\x1b[31m", "a\x00b", "é", strings.Repeat("x", 2048)} {
		f(headers, value, header)
	}
}

// TestEverySettingIsTaken: nothing of the configuration is known and refused.
func TestEverySettingIsTaken(t *testing.T) {
	f := func(input, rest string) {
		t.Helper()
		if got := told(t, "agent.yaml", top+"inputs: [{paths: /a.csv, table: A, "+input+"}]\n"+rest); got != "" {
			t.Errorf("%s %s is told %q", input, rest, got)
		}
	}
	f("mapping: m, format: Avro", "")
	f("mapping: m, format: multijson", "")
	f("parse: cri, mapping: m", "")
	f("parse: none", "")
	f("parse: combined, mapping: m, on_error: drop", "")
	f("parse: syslog, mapping: m, time: {zone: Europe/Berlin}, on_error: quarantine", "")
	f("parse: regex, mapping: m, pattern: '(?P<a>x)', types: {a: long}", "")
	f("parse: regex, mapping: m, pattern: ['(?P<at>x)', '(?P<b>x)'], time: {member: at, layout: syslog, zone: utc}, multiline: {preset: go}", "")
	f("parse: text, mapping: m, multiline: {preset: java}", "")
	f("keep: {match: '^A'}, drop: [{match: 'x,y'}, {name: low, column: 2, below: 3}, {column: 1, in: [a, 7], match: '.'}]", "")
	f("format: JSON, mapping: m, keep: [{member: a.b, above: -1.5e3, below: 7}], drop: {member: level, in: debug}", "")
	f("parse: docker, mapping: m, drop: {member: message, match: '^DEBUG'}", "")
	f("parse: regex, mapping: m, pattern: '(?P<a>x)', drop: [{match: '^#'}, {member: a, match: x}]", "")
	f("sample: {rate: 0.1, by: 2}", "")
	f("sample: {rate: 0.001}", "")
	f("multiline: ", "")
	f("encoding: utf-16le", "")
	f("encoding: utf-8", "")
	f("fields: {a: b}, format: JSON, mapping: m", "")
	f("fields: {}", "")
	f("durability: spool", "")
	f("durability: file", "")
	f("compressed: auto", "")
	f("compressed: never", "")
	f("partial_line_wait: 3s", "")
	f("", "spool: {max_size: 1GiB, max_age: 1d, min_free: 0, when_full: drop_oldest, dir: /x}")
	f("", "quarantine: {max_size: 1MB, when_full: drop_oldest}\njournal: {max_size: 1MB, max_age: 1d}")
}

func TestDurabilityNeedsASpool(t *testing.T) {
	got := told(t, "agent.yaml", top+"inputs: [{paths: /a.csv, table: A, durability: spool}]\nspool: {max_size: 0}\n")
	if !strings.HasPrefix(got, "inputs[0].durability: needs a spool") {
		t.Errorf("told %q", got)
	}
}

// What is printed loads to the same.
func TestShownLoadsToTheSame(t *testing.T) {
	c := trace(t, top+`
user: ${USER_NAME}
batch: {max_wait: 5s, max_records: 3}
inputs:
  - {paths: ['/srv/$$a/$${b}/*.json', '/x: y #z.json'], exclude: "*.bak", table: "2024", mapping: m}
  - {paths: /srv/a.json, table: F, mapping: m, fields: {env: "a $$ {{ ${HOME_DIR}", "a b.c": "{offset}", "a$b": "", "od\u202ed": "x\u202e\ny\u00a0\U000e0001z", host: "{host}"}}
  - {paths: /srv/a.avro, table: V, mapping: m, batch: {max_size: 1kB}}
  - {name: "true", paths: /srv/d.data, table: D, cluster: dr, format: psv, header: skip, ignore_older: 36h}
clusters: {dr: {url: 'https://dr.kusto.windows.net', auth: {method: token_file, token_file: token}}}
spool: {max_size: 0}
send: {rate_limit: 1.5MB, tls: {min_version: 1.3, ca_file: ca.pem}, proxy: 'http://p:1'}
telemetry: {listen: ""}
`, "USER_NAME", "a $USER ${X}", "HOME_DIR", "$a")
	var first, second bytes.Buffer
	if err := c.Show(&first, ""); err != nil {
		t.Fatal(err)
	}
	again := trace(t, first.String())
	if !reflect.DeepEqual(c.Config, again.Config) {
		t.Errorf("shown:\n%s\nloads to\n%+v\nwant\n%+v", &first, again.Config, c.Config)
	}
	if err := again.Show(&second, ""); err != nil {
		t.Fatal(err)
	}
	if uncommented(first.String()) != uncommented(second.String()) {
		t.Errorf("shown:\n%s\nand then:\n%s", &first, &second)
	}
}

func TestInclude(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[odd]") // what the folder is called is no pattern
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	main := write("agent.yaml", top+"include: [conf.d/*.yaml, conf.d/a.yaml, none/*.yaml, '*.yaml']\nbatch: {max_wait: 9s}\ninputs: [{paths: /m.csv, table: M}]")
	b := write("conf.d/b.yaml", "\xef\xbb\xbfinputs:\r\n  - paths: /b.csv\r\n    table: B\r\n")
	a := write("conf.d/a.yaml", "inputs: [{paths: /a.csv, table: A}]")
	write("conf.d/c.txt", "not read")
	c, err := Load(main, environ(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{main, a, b}; !reflect.DeepEqual(c.Files, want) {
		t.Errorf("read %q; want %q", c.Files, want)
	}
	for i, want := range []string{"M", "A", "B"} {
		if in := c.Inputs[i]; in.Name != want || in.Batch.MaxWait.D() != 9*time.Second {
			t.Errorf("input %d: %+v; want %s", i, in, want)
		}
	}

	write("conf.d/a.yaml", "batch: {max_wait: 3s}\ninput: []\ninputs: [{paths: /a.csv, table: M}]\nmapping: m\n")
	write("conf.d/b.yaml", "")
	write("agent.yaml", top+"include: [conf.d/*.yaml, missing.yaml]\ninputs: [{paths: /m.csv, table: M}]")
	if err := os.Mkdir(filepath.Join(dir, "conf.d", "d.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = Load(main, environ(), Options{})
	if err == nil {
		t.Fatal("taken")
	}
	want := `agent.yaml:4:26: include[1]: there is no such file; write one there, or leave it out
    include: [conf.d/*.yaml, missing.yaml]
                             ^
a.yaml:1:1: batch: unknown key here; an included file holds only inputs, so move it to the main file
    batch: {max_wait: 3s}
    ^
a.yaml:2:1: input: unknown key; did you mean inputs?
    input: []
    ^
a.yaml:3:10: inputs[0].name: missing; without one it is the table, "M", as is that of inputs[0] of agent.yaml
    inputs: [{paths: /a.csv, table: M}]
             ^
a.yaml:4:1: mapping: unknown key here; it belongs to an input
    mapping: m
    ^
b.yaml:1:1: the file says nothing; want at least inputs`
	got := strings.NewReplacer(filepath.Dir(a)+"/", "", dir+"/", "").Replace(err.Error())
	if got != want {
		t.Errorf("told:\n%s\nwant:\n%s", got, want)
	}
}

// TestIncludeItself: the main file by name is no file to include, by whatever path or link. A pattern
// that matches it too means the others.
func TestIncludeItself(t *testing.T) {
	dir := t.TempDir()
	main := filepath.Join(dir, "main.yaml")
	if err := os.Symlink("main.yaml", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	f := func(include, want string) {
		t.Helper()
		text := top + "include: [" + include + "]\ninputs: [{paths: /m.csv, table: M}]\n"
		if err := os.WriteFile(main, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(main, environ(), Options{})
		switch {
		case want == "" && (err != nil || len(c.Files) != 1 || len(c.Inputs) != 1):
			t.Errorf("%s: %+v, %v", include, c, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), main+":4:11: include[0]: "+want+"\n") || strings.Contains(err.Error(), "unknown key")):
			t.Errorf("%s: got %v, want %s", include, err, want)
		}
	}
	const itself = "the main file itself; name files that hold only inputs, or leave it out"
	f("main.yaml", itself)
	f("./main.yaml", itself)
	f(main, itself)
	f("link.yaml", itself)
	f("'*.yaml'", "")
}

// Two inputs that would send the lines of one file by one route are refused
// where the file is there now.
func TestOneFileOneRoute(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.csv", "b.csv", "sub/c.csv"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "b.csv"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	f := func(first, second, shared string) {
		t.Helper()
		text := strings.ReplaceAll(top+"inputs:\n  - {name: one, table: A, format: CSV, "+first+"}\n  - {name: two, table: A, format: CSV, "+second+"}\n", "DIR", dir)
		want := ""
		if shared != "" {
			want = `inputs[1].paths: file "` + filepath.Join(dir, shared) + `" is read by inputs[0] too, for the same table, format and mapping; want each line sent once: narrow the paths, or use exclude` + "\n"
		}
		if got := told(t, "agent.yaml", text); got != want {
			t.Errorf("%s and %s: told %q; want %q", first, second, got, want)
		}
	}
	f("paths: DIR/a.csv", "paths: DIR/b.csv", "")
	f("paths: DIR/*.csv", "paths: DIR/b.csv", "b.csv")
	f("paths: DIR/*.csv", "paths: DIR/link", "b.csv")
	f("paths: DIR/*.csv", "paths: 'DIR/{b,c}.csv'", "b.csv")
	f("paths: DIR/**/*.csv", "paths: DIR/sub/*", "sub/c.csv")
	f("paths: DIR/*.csv", "paths: DIR/sub/*", "")
	f("paths: DIR/*.csv, exclude: 'b*'", "paths: DIR/b.csv", "")
	f("paths: DIR/**/*.csv, exclude: '**/sub/*'", "paths: DIR/sub/*", "")
	f("paths: DIR/*.csv", "paths: DIR/b.csv, mapping: other", "")
	f("paths: [DIR/*.csv, DIR/b.csv]", "paths: DIR/none.csv", "")
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "../../agent.yaml.example") {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	env := environ("A", "b", "SECRET", "hunter2")
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte("paths")) && bytes.Contains(text, []byte("**")) {
			return // may walk the whole disk
		}
		c, err := ParseTraced("fuzz.yaml", text, env, Options{})
		var all *Errors
		switch {
		case err == nil:
			checkComplete(t, c)
		case !errors.As(err, &all) || len(all.Problems) == 0:
			t.Fatalf("got %v", err)
		default:
			for _, p := range all.Problems {
				if p.File == "fuzz.yaml" && (p.Line < 1 || p.Col < 1) || p.Message == "" || strings.ContainsAny(p.Message+p.Source+p.Path, "\n\r\x1b\x00") {
					t.Errorf("problem %+v", p)
				}
			}
		}
	})
}

// checkComplete says whether a configuration that was taken can be used as it
// is, and printed and read again.
func checkComplete(t *testing.T, c Traced) {
	t.Helper()
	for i, in := range c.Inputs {
		r := in.Route()
		if in.Name == "" || len(in.Paths) == 0 || r.Cluster == "" || r.Database == "" || r.Table == "" || r.Format == "" || in.Compression == "auto" {
			t.Errorf("input %d is not complete: %+v", i, in)
		}
	}
	for name, cluster := range c.Clusters {
		if cluster.URL == "" || cluster.Auth.Method == "" {
			t.Errorf("cluster %q is not complete: %+v", name, cluster)
		}
	}
	var out bytes.Buffer
	if err := c.Show(&out, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse("fuzz.yaml", out.Bytes(), environ(), Options{}); err != nil {
		t.Errorf("shown:\n%s\nis told:\n%v", &out, err)
	}
}

// TestWhereItListens: as written, else as the environment says, else at the port of the
// contract.
func TestWhereItListens(t *testing.T) {
	f := func(line, want string, env ...string) {
		t.Helper()
		c := load(t, line+"\n"+top+"inputs: [{paths: /a.csv, table: A}]", env...)
		if c.Telemetry.Listen != want {
			t.Errorf("listens on %s; want %s", c.Telemetry.Listen, want)
		}
	}
	f("", "127.0.0.1:5878")
	f("", "127.0.0.1:0", "KUSTO_AGENT_LISTEN", "127.0.0.1:0")
	f("telemetry: {log: {level: warn}}", "127.0.0.1:0", "KUSTO_AGENT_LISTEN", "127.0.0.1:0")
	f("telemetry: {listen: '127.0.0.1:99'}", "127.0.0.1:99", "KUSTO_AGENT_LISTEN", "127.0.0.1:0")
	if got := told(t, "agent.yaml", top+"inputs: [{paths: /a.csv, table: A}]", "KUSTO_AGENT_LISTEN", "nowhere"); !strings.Contains(got, "telemetry.listen") {
		t.Errorf("a bad one: %q", got)
	}
}
