package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/emulator"
)

// needs skips a test where a command is not installed.
func needs(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if _, err := exec.LookPath(c); err != nil {
			t.Skipf("%s is not installed", c)
		}
	}
}

// command runs a command in the folder of the site.
func (s *site) command(name string, args ...string) {
	s.t.Helper()
	c := exec.Command(name, args...)
	c.Dir = s.dir
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}

// awaitSettled waits until every file in logs that holds something and matches is
// being read, and each file is safe to its end.
func (p *process) awaitSettled(matches func(path string) bool) {
	p.t.Helper()
	p.awaitBooks("T", func(a account) bool {
		safe := make(map[string]bool)
		for _, f := range p.status().Files {
			safe[f.Path] = f.Safe == f.Size
		}
		paths, err := filepath.Glob(p.site.path("logs/*"))
		if err != nil {
			p.t.Fatal(err)
		}
		for _, path := range paths {
			if st, err := os.Stat(path); err == nil && st.Size() > 0 && !safe[path] && matches(path) {
				return false
			}
		}
		for _, all := range safe {
			if !all {
				return false
			}
		}
		return true
	})
}

// TestCompressedByLogrotate: what logrotate compresses arrives once, whether the
// patterns name it or not, also where it happened while nobody looked.
func TestCompressedByLogrotate(t *testing.T) {
	t.Parallel()
	needs(t, "logrotate", "gzip")
	for _, v := range []struct{ name, how, paths string }{
		{"create", "create\ncompress\n", "app.json*"},
		{"delaycompress-outside", "create\ncompress\ndelaycompress\n", "app.json"},
		{"copytruncate", "copytruncate\ncompress\n", "app.json*"},
		{"copytruncate-outside", "copytruncate\ncompress\n", "app.json"},
		{"zstd-outside", "create\ncompress\ncompresscmd /usr/bin/zstd\ncompressext .zst\n", "app.json"},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(v.how, "zstd") {
				needs(t, "/usr/bin/zstd")
			}
			s := newSite(t, emulator.Options{})
			matches := func(path string) bool { return v.paths == "app.json*" || filepath.Base(path) == v.paths }
			s.write("rotate.conf", s.path("logs/app.json")+" {\nrotate 20\n"+v.how+"}\n")
			if err := os.Chmod(s.path("rotate.conf"), 0o644); err != nil {
				t.Fatal(err)
			}
			config := open + `inputs: [{paths: ["${DIR}/logs/` + v.paths + `"], format: JSON, table: T, mapping: m, rotate_quiet: 100ms}]`
			var want []string
			write := func(n int) {
				records := jsonRecords(len(want), n)
				want = append(want, records...)
				s.append("logs/app.json", joined(records))
			}
			rotate := func() { s.command("logrotate", "-f", "-s", s.path("rotate.state"), s.path("rotate.conf")) }

			write(300)
			p := s.run(config)
			s.awaitRows("T", len(want))
			rotate()
			for range 2 {
				write(200)
				s.awaitRows("T", len(want)-100)
				rotate()
			}
			write(200)
			s.awaitRows("T", len(want))
			p.awaitSettled(matches)
			p.stop()
			write(200) // half of the file was read
			rotate()
			write(50)
			p = s.run(config)
			s.awaitRows("T", len(want))
			p.awaitSettled(matches)
			p.kill()
			write(100)
			rotate()
			rotate()
			write(100)
			p = s.run(config)
			s.awaitRows("T", len(want))
			p.awaitSettled(matches)
			p.stop()
			s.wantRows("T", want)
			if n := len(p.entries("file is gone, its unread bytes are lost unless it comes back")); n > 0 {
				t.Errorf("%d files are told as lost", n)
			}
		})
	}
}

// TestCompressedKilled: killed inside a large compressed file, it goes on where the
// endpoint is, not at the start and not at the end.
func TestCompressedKilled(t *testing.T) {
	t.Parallel()
	needs(t, "gzip", "zstd")
	n := 40_000
	if longForm {
		n = 2_000_000 // of 1 GiB
	}
	for _, tool := range []string{"gzip", "zstd"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{KeepRequests: 1 << 20})
			s.server.Fail(emulator.Fault{When: emulator.AfterCommit, Delay: 5_000_000})
			var all strings.Builder
			for seq := range n {
				all.WriteString(crashLine(seq))
			}
			s.write("logs/app.json", all.String())
			args := []string{"-1", "logs/app.json"}
			if tool == "zstd" {
				args = append(args, "--rm", "-q")
			}
			s.command(tool, args...)
			c := crash{site: s, records: n, perFile: n + 1}
			config := open + "batch: {max_size: 256KiB}\n" + `inputs: [{paths: ["${DIR}/logs/app.json*"], format: JSON, table: T, mapping: m, rotate_quiet: 100ms}]`
			var named []span
			for kill := range 3 {
				p := s.run(config)
				s.awaitRows("T", n*(kill+1)/4)
				p.kill()
				named = append(named, c.named(p)...)
			}
			p := s.run(config)
			p.awaitBooks("T", func(account) bool { return s.server.RowCount("Logs", "T") >= n && p.allRead() })
			named = append(named, c.named(p)...)
			p.stop()
			paths := make(map[string]string)
			for _, sp := range named {
				paths[sp.id] = s.path("logs/app.json")
			}
			c.compare(named, paths)
			if most := n + n/2; s.server.RowCount("Logs", "T") > most {
				t.Errorf("%d rows of %d records: it began again", s.server.RowCount("Logs", "T"), n)
			}
			c.wantUniqueRequests()
		})
	}
}

// TestCompressedOnce: a run to the end reads compressed files of both kinds, plain
// text under such a name too, and says what it cannot read; a preview reads them.
func TestCompressedOnce(t *testing.T) {
	t.Parallel()
	needs(t, "gzip", "zstd")
	s := newSite(t, emulator.Options{})
	config := open + `inputs: [{paths: ["${DIR}/logs/*.json.gz", "${DIR}/logs/*.json.zst", "${DIR}/logs/*.json"], table: T, mapping: m}]`
	records := jsonRecords(0, 500)
	s.write("logs/a.json", joined(records[:100]))
	s.write("logs/b.json", joined(records[100:200]))
	s.write("logs/c.json.gz", joined(records[200:300]))
	s.write("logs/d.json", strings.TrimSuffix(joined(records[300:400]), "\n"))
	s.command("gzip", "logs/a.json")
	s.command("zstd", "--rm", "-q", "logs/b.json")
	s.command("sh", "-c", "gzip -c logs/d.json | cat - logs/a.json.gz >logs/two.json.gz; rm logs/d.json logs/a.json.gz")
	s.write("agent.yaml", config)
	out, words := s.show(0, "preview", "T", "--config", s.path("agent.yaml"), "--records", "0")
	if !strings.Contains(out, "POST /v1/rest/ingest/Logs/T?streamFormat=JSON") || !strings.Contains(words, "from DIR/logs/") {
		t.Errorf("preview: %s\n%s", out, words)
	}
	// d ends without a newline, so its last record and the first of a are one line
	// that is no JSON.
	s.once(config, 1)
	want := append(append([]string(nil), records[1:300]...), records[300:399]...)
	s.wantRows("T", want)
	s.once(config, 0)
	s.wantRows("T", want)

	s.write("logs/e.json", joined(records[400:]))
	s.command("gzip", "logs/e.json")
	whole := s.read("logs/e.json.gz")
	s.write("logs/e.json.gz", whole[:len(whole)/2])
	p := s.once(config, 1)
	p.await(1, "file cannot be read, will retry", "breaks off")
	s.wantRows("T", want)
	s.write("logs/e.json.gz", whole)
	s.once(config, 0)
	s.wantRows("T", append(want, records[400:]...))
}
