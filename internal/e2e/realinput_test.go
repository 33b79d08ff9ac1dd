package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
)

// nginxConfig writes each request to three logs: as lines of text, as JSON, and as
// combined has it.
const nginxConfig = `
daemon off;
user root;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx-error.log;
events { worker_connections 64; }
http {
  log_format plain '$request_id $remote_addr - [$time_iso8601] "$request" $status $body_bytes_sent "$http_user_agent"';
  log_format json escape=json '{"id":"$request_id","time":"$time_iso8601","request":"$request","status":$status,"took":$request_time,"agent":"$http_user_agent"}';
  access_log %[1]s/logs/access.log plain;
  access_log %[1]s/logs/access.json json;
  access_log %[1]s/logs/combined.log combined;
  client_body_temp_path %[1]s/tmp-body;
  proxy_temp_path %[1]s/tmp-proxy;
  fastcgi_temp_path %[1]s/tmp-fastcgi;
  uwsgi_temp_path %[1]s/tmp-uwsgi;
  scgi_temp_path %[1]s/tmp-scgi;
  server {
    listen unix:%[1]s/nginx.sock;
    listen 127.0.0.1:%[2]s;
    location / { return 200 "ok\n"; }
  }
}
`

// webServer is a real nginx, its load, and the logrotate that rotates its logs.
type webServer struct {
	*site
	port    string
	process *exec.Cmd
	rotate  string // configuration of logrotate
}

// newWebServer starts nginx. logrotate is told what else to do with the logs.
func newWebServer(s *site, directives string) *webServer {
	s.t.Helper()
	for _, tool := range []string{"nginx", "wrk", "logrotate"} {
		if _, err := exec.LookPath(tool); err != nil {
			s.t.Skipf("%s is not installed: %v", tool, err)
		}
	}
	if os.Getuid() != 0 {
		s.t.Skip("logrotate and nginx are started as root here")
	}
	w := &webServer{site: s, rotate: s.path("logrotate.conf")}
	w.port = s.deadURL()[len("http://127.0.0.1:"):]
	s.write("nginx.conf", fmt.Sprintf(nginxConfig, s.dir, w.port))
	s.write("logs/access.log", "")
	s.write("logs/access.json", "")
	// logrotate trusts no folder that others may write to, nor a file.
	for _, path := range []string{s.dir, s.path("logs"), w.rotate} {
		if path == w.rotate {
			s.write("logrotate.conf", fmt.Sprintf("%s %s {\n su root root\n rotate 100\n missingok\n%s\n}\n",
				s.path("logs/access.log"), s.path("logs/access.json"), strings.ReplaceAll(directives, "PID", s.path("nginx.pid"))))
			continue
		}
		if err := os.Chmod(path, 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	w.process = exec.Command("nginx", "-p", s.dir, "-e", s.path("nginx-error.log"), "-c", s.path("nginx.conf"))
	said := newLines(s.t)
	w.process.Stdout, w.process.Stderr = said.in, said.in
	if err := w.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	said.follow()
	s.t.Cleanup(func() { w.stop() })
	w.awaitAnswer(said)
	return w
}

// awaitAnswer asks until nginx answers.
func (w *webServer) awaitAnswer(said *lines) {
	w.t.Helper()
	ctx, cancel := w.waiting()
	defer cancel()
	for ctx.Err() == nil && w.process.ProcessState == nil {
		resp, err := client.Get("http://127.0.0.1:" + w.port + "/")
		if err == nil {
			resp.Body.Close()
			return
		}
	}
	w.t.Fatalf("nginx does not answer: %s%s", said.text(), w.read("nginx-error.log"))
}

// stop ends nginx; its logs are complete then.
func (w *webServer) stop() {
	if w.process.ProcessState == nil {
		_ = w.process.Process.Signal(syscall.SIGQUIT)
		_ = w.process.Wait()
	}
}

// load makes requests for a second.
func (w *webServer) load() (done <-chan error) {
	ended := make(chan error, 1)
	// Started here, ended by wrk, awaited by whoever receives.
	go func() {
		out, err := exec.Command("wrk", "-t1", "-c4", "-d1s", "http://127.0.0.1:"+w.port+"/a?b=c&quote=%22").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("wrk: %w: %s", err, out)
		}
		ended <- err
	}()
	return ended
}

// turn rotates the logs now.
func (w *webServer) turn() {
	w.t.Helper()
	out, err := exec.Command("logrotate", "-f", "-s", w.path("logrotate.state"), w.rotate).CombinedOutput()
	if err != nil || len(out) > 0 {
		w.t.Fatalf("logrotate: %v: %s", err, out)
	}
}

// underLoad rotates in the middle of the load, n times.
func (w *webServer) underLoad(n int) {
	w.t.Helper()
	for range n {
		done := w.load()
		w.awaitRows("Text", w.server.RowCount("Logs", "Text")+500)
		w.turn()
		if err := <-done; err != nil {
			w.t.Fatal(err)
		}
	}
}

// written are the lines of the log and of all that was rotated away, by file.
func (w *webServer) written(name string) (all []string, files map[string]string) {
	w.t.Helper()
	names, err := filepath.Glob(w.path("logs/" + name + "*"))
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(names)
	files = make(map[string]string)
	for _, path := range names {
		text := w.read("logs/" + filepath.Base(path))
		files[filepath.Base(path)] = text
		for line := range strings.Lines(text) {
			all = append(all, strings.TrimSuffix(line, "\n"))
		}
	}
	return all, files
}

// nginxLine is a whole line in either format.
var nginxLine = regexp.MustCompile(`^(?:[0-9a-f]{32} 127\.0\.0\.1 - \[[^]]+\] "GET [^"]+ HTTP/1\.1" 200 3 "[^"]*"|` +
	`\{"id":"[0-9a-f]{32}","time":"[^"]+","request":"GET [^"]+ HTTP/1\.1","status":200,"took":[0-9.]+,"agent":"[^"]*"\})$`)

const webInputs = `
inputs:
  - {name: text, paths: ["${DIR}/logs/access.log"], table: Text}
  - {name: json, paths: ["${DIR}/logs/access.json"], table: Json, mapping: m}
`

const webInputsAndCopies = `
inputs:
  - {name: text, paths: ["${DIR}/logs/access.log*"], table: Text, format: TXT}
  - {name: json, paths: ["${DIR}/logs/access.json*"], table: Json, format: JSON, mapping: m}
`

// TestNginxRotated: what nginx has written while logrotate renamed its logs is
// what is stored, line by line.
func TestNginxRotated(t *testing.T) {
	t.Parallel()
	f := func(name, inputs string, rotations int) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			w := newWebServer(s, "sharedscripts\ncreate 0644 root root\npostrotate\n  kill -USR1 $(cat PID)\nendscript")
			p := s.run(open + inputs)
			p.await(1, "agent is running")
			w.underLoad(rotations)
			w.stop()
			text, files := w.written("access.log")
			inJSON, _ := w.written("access.json")
			if len(files) != rotations+1 || len(text) != len(inJSON) {
				t.Fatalf("%d files, %d lines of text, %d of JSON", len(files), len(text), len(inJSON))
			}
			s.awaitRows("Text", len(text))
			s.awaitRows("Json", len(inJSON))
			p.awaitBooks("text", func(a account) bool { return int(a.accepted) == len(text) && a.pending == 0 })
			// All may be stored before a scan misses the file at its old path.
			s.until("all rotations are seen", func() bool { return int(p.metric("tail_rotations_total", `input="text"`)) >= rotations })
			p.stop()
			t.Logf("%d lines in %d files", len(text), len(files))
			s.wantRows("Text", text)
			s.wantRows("Json", inJSON)
		})
	}
	rotations := 3
	if testing.Short() {
		rotations = 1
	}
	f("by its name", webInputs, rotations)
	f("by its name, polled", strings.ReplaceAll(webInputs, "table:", "watch: poll, table:"), rotations)
	f("with what was rotated", webInputsAndCopies, rotations)
}

// TestNginxCopyTruncated: each line that is left in a copy or in the live file
// is stored, or lies within bytes the log tells as unread; none is stored
// twice, and none is cut but by who made the copy.
func TestNginxCopyTruncated(t *testing.T) {
	t.Parallel()
	f := func(name, inputs string, rotations int) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			w := newWebServer(s, "copytruncate")
			p := s.run(open + inputs)
			p.await(1, "agent is running")
			w.underLoad(rotations)
			w.stop()
			p.awaitBooks("text", func(a account) bool { return a.pending == 0 && readToEnd(p) })
			var cuts []string
			for _, log := range []struct{ name, table, input string }{{"access.log", "Text", "text"}, {"access.json", "Json", "json"}} {
				all, files := w.written(log.name)
				all, cut := cutLines(all, files)
				cuts = append(cuts, cut...)
				unread := p.metric("tail_truncated_unread_bytes_total", `input="`+log.input+`"`)
				missing := w.compareCopies(log.table, all, cut)
				t.Logf("%s: %d lines in %d files, %d bytes of them not stored, %v bytes told as unread", log.name, len(all), len(files), missing, unread)
				if float64(missing) > unread {
					t.Errorf("%s: %d bytes of whole lines are missing, %v are told as unread", log.name, missing, unread)
				}
			}
			p.stop()
			for _, q := range s.quarantined() {
				if data, _ := q["data"].(string); !slices.Contains(cuts, data) {
					t.Errorf("in quarantine: %v", q)
				}
			}
		})
	}
	rotations := 3
	if testing.Short() {
		rotations = 1
	}
	f("by its name", webInputs, rotations)
	f("with the copies", webInputsAndCopies, rotations)
}

// cutLines takes the lines out that a copy ends in the middle of: cp may meet the
// half of what nginx is writing, and the other half is truncated away.
func cutLines(all []string, files map[string]string) (whole, cut []string) {
	for _, text := range files {
		if i := strings.LastIndexByte(text, '\n'); i < len(text)-1 {
			cut = append(cut, text[i+1:])
		}
	}
	return slices.DeleteFunc(all, func(line string) bool { return slices.Contains(cut, line) }), cut
}

// readToEnd reports whether the agent is at the end of the last line of every
// file. Of one that was renamed it has to know that.
func readToEnd(p *process) bool {
	for _, f := range p.status().Files {
		if text, err := os.ReadFile(f.Path); err != nil || int64(bytes.LastIndexByte(text, '\n')+1) > f.Safe {
			return false
		}
	}
	return true
}

// compareCopies expects each row at most once, and whole. It returns the bytes
// of the lines that are not stored.
func (w *webServer) compareCopies(table string, written, cut []string) (missing int) {
	w.t.Helper()
	stored, twice := make(map[string]int), 0
	for _, row := range w.server.Rows("Logs", table) {
		line := string(row.Raw)
		if stored[line]++; stored[line] == 2 {
			twice++
		}
		if !nginxLine.MatchString(line) && !slices.Contains(cut, line) {
			w.t.Fatalf("%s: a line nginx has not written: %q", table, line)
		}
	}
	if twice > 0 {
		w.t.Errorf("%s: %d lines are stored twice", table, twice)
	}
	for _, line := range written {
		if stored[line] == 0 {
			missing += len(line) + 1
		}
	}
	return missing
}

// TestPackageLog ships a log that every Debian has.
func TestPackageLog(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("/var/log/dpkg.log")
	if err != nil {
		t.Skipf("there is no log of packages: %v", err)
	}
	s := newSite(t, emulator.Options{})
	s.write("logs/dpkg.log", string(text)) // a copy: packages may be installed meanwhile
	want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	s.once(open+oneText, 0)
	s.wantRows("Text", want)
	t.Logf("%d lines", len(want))
}
