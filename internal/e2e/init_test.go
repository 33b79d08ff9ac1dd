package e2e

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

// TestInitToRows: from a sample file alone to rows in their columns.
func TestInitToRows(t *testing.T) {
	t.Parallel()
	f := func(name, file, text, table, rows string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, strict(t))
			s.env = append(s.env, "TZ=UTC")
			s.write(file, text)
			out, words := s.show(0, "init", s.path(file), "--cluster", s.url, "--database", "Logs")
			if out != "" || !strings.Contains(words, "agent.yaml is written; next: kusto-agent setup --dry-run --config agent.yaml") {
				t.Fatalf("it prints %s and says %s", out, words)
			}
			s.show(0, "setup", "--config", "agent.yaml")
			s.agent = s.launch("run", "--once", "--config", "agent.yaml").want(0)
			if got := s.tableText(table); got != rows {
				t.Errorf("rows\n%s\nwant\n%s\nof %s", got, rows, s.read("agent.yaml"))
			}
		})
	}
	f("JSON in a log", "my [logs]/app-2026-03-01.log", "{\"a b\":1}\n", "App", `{"a b":1}`)
	f("CSV", "logs/web.hits.csv", "id,name\n1,a\n2,b\n", "Web", `{"id":1,"name":"a"}`+"\n"+`{"id":2,"name":"b"}`)
	f("text", "logs/syslog", "one\n", "Syslog", `{"Line":"one"}`)
	f("access log", "logs/access.log", `::1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`+"\n", "Access",
		`{"remote_addr":"::1","user":"","time":"2026-03-01T12:00:00.0000000Z","method":"GET","path":"/","protocol":"HTTP/1.1","status":200,"bytes":1,"referer":"","user_agent":"","request":"","message":"","parse_error":""}`)
	f("syslog", "logs/auth.log", "2026-03-01T12:00:00.5+01:00 web-1 sshd[812]: Accepted publickey\n", "Auth",
		`{"time":"2026-03-01T11:00:00.5000000Z","host":"web-1","app":"sshd","pid":812,"facility":null,"severity":null,"message":"Accepted publickey","parse_error":""}`)
	f("docker", "logs/x-json.log", `{"log":"hello\n","stream":"stdout","time":"2026-03-01T12:00:00.5Z"}`+"\n", "X-json", `{"time":"2026-03-01T12:00:00.5000000Z","stream":"stdout","message":"hello"}`)
	f("logfmt", "logs/pay.log", `ts=2026-03-01T12:00:00Z level=info took=1.5 n=3 code=007 ok=true msg="a b"`+"\n"+`ts=2026-03-01T12:00:01Z level=warn took=2 n=4 code=008 ok=false msg=c`+"\n", "Pay",
		`{"ts":"2026-03-01T12:00:00.0000000Z","level":"info","took":1.5,"n":3,"code":"007","ok":true,"msg":"a b"}`+"\n"+`{"ts":"2026-03-01T12:00:01.0000000Z","level":"warn","took":2,"n":4,"code":"008","ok":false,"msg":"c"}`)
	f("pairs", "logs/kv.log", "2026-03-01 12:00:00,5 +01 INFO paid, order=7, took=1.5, user='a', ok=true\n2026-03-01 12:00:01,5 +01 WARN failed, order=8, took=2, user='b c', ok=false\n", "Kv",
		`{"time":"2026-03-01T12:00:00.5000000Z","message":"+01 INFO paid","order":7,"took":1.5,"user":"'a'","ok":true,"parse_error":""}`+"\n"+`{"time":"2026-03-01T12:00:01.5000000Z","message":"+01 WARN failed","order":8,"took":2,"user":"'b c'","ok":false,"parse_error":""}`)
	f("access log in a container", "logs/web.log", `2026-03-01T12:00:00.5Z stdout F ::1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`+"\n", "Web",
		`{"time":"2026-03-01T12:00:00.5000000Z","stream":"stdout","remote_addr":"::1","user":"","time_2":"2026-03-01T12:00:00.0000000Z","method":"GET","path":"/","protocol":"HTTP/1.1","status":200,"bytes":1,"referer":"","user_agent":"","request":"","message":"","parse_error":""}`)
	f("JSON in a container", "logs/y-json.log", `{"log":"{\"n\":1,\"level\":\"info\"}\n","stream":"stdout","time":"2026-03-01T12:00:00.5Z"}`+"\n", "Y-json",
		`{"time":"2026-03-01T12:00:00.5000000Z","stream":"stdout","message":"","parse_error":"","n":1,"level":"info"}`)
	f("UTF-16", "logs/u.json", "\xff\xfe{\x00\"\x00a\x00\"\x00:\x001\x00}\x00\n\x00", "U", `{"a":1}`)
	f("Avro", "logs/e.1.avro", logicalAvro(t), "E", `{"at":"2026-03-01T12:00:00.0000000Z","d":"2026-03-01T00:00:00.0000000Z","t":"12:00:00","price":"1.25","id":"f80da32c-108c-415c-a19e-643f461a677a","n":7,"x":null,"kind":"A","tags":["a"],"again":"B","maybe":{"note":"in"}}`)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte("{\"a\":1}\n")); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	f("gzip", "logs/z.json.gz", packed.String(), "Z", `{"a":1}`)
}

// TestInitFlags: what is missing or wrong is told, and nothing is overwritten.
func TestInitFlags(t *testing.T) {
	t.Parallel()
	s := newSite(t, strict(t))
	f := func(code int, says string, flags ...string) string {
		t.Helper()
		out, words := s.show(code, append([]string{"init"}, flags...)...)
		if !strings.Contains(words, says) {
			t.Errorf("%q says %q, want %q", flags, words, says)
		}
		return out
	}
	f(64, "missing: --cluster, --database, --path, --format, --table")
	f(64, `--format: "xml" is not a format; want one of CSV`, "--cluster", s.url, "--database", "D", "--path", "/x", "--format", "xml")
	f(64, "--database: database", "--cluster", s.url, "--database", "a/b")
	f(64, "--cluster: ", "--cluster", "https://ingest-c.westeurope.kusto.windows.net")
	f(64, "no such file", "nothing.json")
	f(64, `--output "nodir/x.yaml": there is no folder "nodir"; make it, or name another file`, "--output", "nodir/x.yaml")
	f(64, "is a folder; name a file in it as the sample, or give --path", s.dir)
	all := []string{"--cluster", "https://c.westeurope.kusto.windows.net", "--database", "My logs", "--path", "/srv/app/*.json", "--tenant", "t", "--client-id", "true"}
	f(64, `--auth: "magic" is not a way to sign in; want one of auto, client_secret`, append(all, "--auth", "magic")...)
	f(64, "--auth: none is for a cluster on this machine", append(all, "--auth", "none")...)
	f(64, `--path: "/srv/[a" is no pattern of files`, append(all, "--path", "/srv/[a")...)
	other := append(all, "--cluster", "https://adx.example.com")
	f(64, "set allow_untrusted_endpoint: true if it is yours, which init does with --allow-untrusted-endpoint", other...)
	if text := f(0, "", append(other, "--allow-untrusted-endpoint", "--output", "-")...); !strings.Contains(text, "\nallow_untrusted_endpoint: true ") {
		t.Error(text)
	}
	out := f(0, "", append(all, "--output", "-")...)
	wantFile(t, "init.yaml", out+"\n")
	f(0, "agent.yaml is written", all...)
	f(64, `"agent.yaml" is there already; overwrite it with --force`, all...)
	f(0, "agent.yaml is written", append(all, "--force", "--table", "Other")...)
	if text := s.read("agent.yaml"); !strings.Contains(text, "table: Other ") || !strings.Contains(text, "mapping: Other_json") {
		t.Error(text)
	}
}
