package pipeline

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"kusto-agent/internal/config"
	"kusto-agent/internal/record"
)

// TestReshape: a record is what its input would send of it now, whether its file is still
// there or not; one of an input that is gone is as it was.
func TestReshape(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.log")
	if err := os.WriteFile(file, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := `cluster: http://127.0.0.1:1
database: D
auth: {method: none}
inputs:
  - {name: plain, table: T, paths: [/x/a.json], mapping: m}
  - {name: unchecked, table: U, paths: [/x/u.json], mapping: m, validate: none}
  - {name: fields, table: F, paths: [/x/f.json], mapping: m, fields: {offset: "{offset}", batch: "{batch}", path: "{path}"}}
  - {name: parsed, table: P, paths: [/x/p.log], format: JSON, mapping: m, parse: logfmt, drop: [{member: level, match: debug}]}
  - {name: csv, table: C, paths: [/x/c.csv], header: skip}
  - {name: wide, table: W, paths: [/x/w.log], encoding: utf-16le}
  - {name: short, table: S, paths: [/x/s.log], max_record_size: 5B}
`
	cfg, err := config.Parse("agent.yaml", []byte(text), os.LookupEnv, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewReshaper(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := func(input string, format record.Format, offset int64, data, want string) {
		t.Helper()
		for i, path := range []string{file, "/none/app.log"} {
			r := record.Rejected{File: record.File{Input: input, ID: record.FileID(i)}, Path: path, Route: record.Route{Format: format}, Offset: offset, Data: []byte(data)}
			got, err := a.Shape(&r, record.BatchID{1})
			if err != nil {
				got = []byte("error: " + err.Error())
			}
			if want := os.Expand(want, func(string) string { return path }); string(got) != want {
				t.Errorf("%s of %s: %q becomes %q, want %q", path, input, data, got, want)
			}
			if string(r.Data) != data {
				t.Errorf("its bytes are %q now", r.Data)
			}
		}
	}
	f("plain", record.JSON, 7, "no json\n", "error: rejected by its input: column 1: unexpected 'n' where an object must begin")
	f("unchecked", record.JSON, 7, "no json\n", "no json\n")
	f("plain", record.JSON, 7, `{"a":1}`, "{\"a\":1}\n")
	f("fields", record.JSON, 0, "{\"a\":1}\n", `{"a":1,"batch":"01000000-0000-0000-0000-000000000000","offset":0,"path":"$PATH"}`+"\n")
	f("fields", record.JSON, 40, "[1]\n", "error: rejected by its input: column 1: unexpected '[' where an object must begin")
	f("parsed", record.JSON, 3, "level=info msg=hello\n", `{"level":"info","msg":"hello"}`+"\n")
	f("parsed", record.JSON, 3, "level=debug msg=hello\n", "error: the rules of its input leave it out now")
	f("csv", record.CSV, 0, "a,\"b\nc\",d\n", "a,\"b\nc\",d\n")
	f("wide", record.TXT, 2, "h\x00i\x00\n\x00", "hi\n")
	f("short", record.TXT, 2, "123456\n", "error: rejected by max_record_size of its input: longer than 5 bytes")
	f("csv", record.CSV, 8, "a\"b,c\n", "a\"b,c\n")
	f("gone", record.JSON, 0, "{\"a\":1}\n\n{'b':2}", "{\"a\":1}\n{'b':2}\n")
	f("gone", record.JSON, 0, " \n", "error: its input shapes it no more, and as JSON it is blank")
	f("gone", record.JSON, 0, "{\"a\":1}\nas it was\n", "error: its input shapes it no more, and as JSON it is not sound: column 1: unexpected 'a' where an object must begin")
	f("gone", record.JSON, 0, "\ufeff{\"a\":1}\n", "{\"a\":1}\n") // it would be in the middle of a request
	f("gone", record.CSV, 0, "as it was", "as it was")
	f("plain", record.TXT, 0, "as it was", "as it was") // its input had another format then
}

// TestReshapeFindsTheYear: a time without a year has the one that it had when the record was
// refused, whatever has become of its file; a line of earlier versions, which has no date, has the
// one of the file that is there.
func TestReshapeFindsTheYear(t *testing.T) {
	file := filepath.Join(t.TempDir(), "syslog")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(year int) time.Time { return time.Date(year, 3, 1, 12, 0, 0, 0, time.UTC) }
	if err := os.Chtimes(file, at(2027), at(2027)); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("agent.yaml", []byte(`cluster: http://127.0.0.1:1
database: D
auth: {method: none}
inputs: [{name: sys, table: T, paths: [/x/syslog], mapping: m, parse: syslog, time: {zone: utc}}]
`), os.LookupEnv, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewReshaper(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		path  string
		dated int64
		want  string
	}{{file, at(2025).UnixNano(), "2025"}, {"/none/syslog", at(2025).UnixNano(), "2025"}, {file, 0, "2027"}} {
		for n := range 2 { // the file is looked at once
			r := record.Rejected{File: record.File{Input: "sys", ID: record.FileID(i)}, Path: c.path, Dated: c.dated, Route: record.Route{Format: record.JSON}, Data: []byte("Mar  1 12:00:00 h a: m\n")}
			got, err := a.Shape(&r, record.BatchID{})
			if want := `{"time":"` + c.want + `-03-01T12:00:00Z","host":"h","app":"a","message":"m"}` + "\n"; err != nil || string(got) != want {
				t.Errorf("%d, %d: %q, %v; want %q", i, n, got, err, want)
			}
		}
	}
}
