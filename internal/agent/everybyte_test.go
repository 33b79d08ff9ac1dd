package agent

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/emulator"
	"kusto-agent/internal/audit"
	"kusto-agent/internal/config"
	"kusto-agent/internal/ledger"
)

// hurt is a state folder of which one file is damaged.
type hurt struct {
	*site
	state   map[string][]byte // files of the state, as a kill left them, without zeros at their end
	sizes   map[string]int64
	records []string
}

// killed has records that were accepted, and others that wait in the spool, when the agent
// is killed.
func killed(t *testing.T) *hurt {
	h := &hurt{site: newSite(t), state: map[string][]byte{}, sizes: map[string]int64{}}
	const rest = "spool: {min_free: 0, max_size: 16MiB}\ninputs: [{paths: [\"$DIR/logs/*.json\"], format: JSON, table: T, mapping: m}]\n"
	h.configure("send: {retry: {initial: 1ms, max: 5ms, patience: 1ms}}\n" + rest)
	line := func(n int) string {
		h.records = append(h.records, fmt.Sprintf(`{"n":%d}`, n))
		return h.records[n] + "\n"
	}
	h.write("logs/a.json", line(0)+line(1))
	r := h.start(false)
	h.rows("T", h.records...)
	r.books("T", func(b ledger.Books) bool { return b.Accepted == 2 })
	away := h.server.Fail(emulator.Fault{Status: 503})
	h.append("logs/a.json", line(2))
	h.write("logs/b.json", line(3)+line(4))
	r.books("T", func(b ledger.Books) bool { return b.Spooled == 3 })
	h.must(filepath.WalkDir(h.path("state"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var b []byte
			b, err = os.ReadFile(path)
			name := strings.TrimPrefix(path, h.path("state")+"/")
			h.state[name], h.sizes[name] = bytes.TrimRight(b, "\x00"), int64(len(b))
		}
		return err
	}))
	r.stop()
	away.Remove()
	h.configure("send: {retry: {initial: 1ms, max: 5ms}}\n" + rest) // a slow answer is no outage
	return h
}

// again starts an agent on what the kill left, with other content of one file, and runs it
// to the end of the files. The error is that of a start that is refused.
func (h *hurt) again(name string, content []byte, size int64) (said string, err error) {
	h.Helper()
	h.idle()
	h.must(os.RemoveAll(h.path("state")))
	for file, b := range h.state {
		end := h.sizes[file]
		if file == name {
			b, end = content, size
		}
		h.must(os.MkdirAll(filepath.Dir(h.path("state/"+file)), 0o700))
		h.must(os.WriteFile(h.path("state/"+file), b, 0o600))
		h.must(os.Truncate(h.path("state/"+file), end))
	}
	before := map[string]bool{}
	h.server.Damage("Logs", "T", func(row emulator.Row) int {
		text := string(row.Raw)
		if before[text] || !slices.Contains(h.records[:2], text) {
			return 0
		}
		before[text] = true
		return 1
	})
	cfg, err := config.Load(h.path("agent.yaml"), os.LookupEnv, config.Options{})
	h.must(err)
	log := newNotes()
	a, err := New(Options{Config: cfg, Path: h.path("agent.yaml"), Log: slog.New(slog.NewTextHandler(log, nil)), Once: true,
		Rescan: 10 * time.Millisecond, Retry: time.Millisecond})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		h.must(a.Run(ctx, make(chan os.Signal)))
	}
	said, _ = log.seen()
	return said, err
}

// judge compares the table with what was written and with the audit.
func (h *hurt) judge(what, said string) (doubles int) {
	h.Helper()
	count := map[string]int{}
	for _, row := range h.server.Rows("Logs", "T") {
		count[string(row.Raw)]++
	}
	r, err := audit.Read(audit.Options{State: h.path("state"), Spool: h.path("state/spool")})
	h.must(err)
	named := 0
	for i := range r.Files {
		for _, t := range r.Files[i].Troubles {
			if t.Problem == audit.Doubled || t.Problem == audit.Unsure {
				named++
			}
		}
	}
	for _, text := range h.records {
		switch n := count[text]; {
		case n == 0:
			h.Errorf("%s: %s is missing\n%s", what, text, said)
		case n > 1:
			doubles++
		}
		delete(count, text)
	}
	if len(count) > 0 {
		h.Errorf("%s: the table has %v", what, count)
	}
	if doubles > 0 && named == 0 && !strings.Contains(said, "level=WARN") && !strings.Contains(said, "level=ERROR") {
		h.Errorf("%s: %d records are stored twice, and neither the audit nor the log says so\n%s", what, doubles, said)
	}
	return doubles
}

// TestEveryByteOfTheState: a start on a state of which one byte has flipped, or of which a
// file breaks off, sends all that is missing, from the files if need be, and says what may
// be stored twice; or it is refused, and then nothing has changed. The short form visits
// some bytes of each file.
func TestEveryByteOfTheState(t *testing.T) {
	step := 397
	if os.Getenv("KUSTO_AGENT_LONG") != "" {
		step = 1
	}
	h := killed(t)
	starts, refused, doubled := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(h.state)) {
		if dir, _, _ := strings.Cut(name, "/"); dir != "journal" && dir != "spool" {
			continue
		}
		whole := h.state[name]
		before := starts
		for at := 0; at < len(whole); at += step {
			flipped := bytes.Clone(whole)
			flipped[at] ^= 1 << (at % 8)
			for _, c := range []struct {
				how     string
				content []byte
				size    int64
			}{{"flipped", flipped, h.sizes[name]}, {"torn", whole[:at], int64(at)}} {
				what := fmt.Sprintf("%s %s at byte %d of %d", name, c.how, at, len(whole))
				starts++
				said, err := h.again(name, c.content, c.size)
				if err == nil {
					if h.judge(what, said) > 0 {
						doubled++
					}
					continue
				}
				refused++
				if now, err := os.ReadFile(h.path("state/" + name)); err != nil || !bytes.Equal(bytes.TrimRight(now, "\x00"), bytes.TrimRight(c.content, "\x00")) {
					t.Errorf("%s: the start is refused, and the file has changed: %v", what, err)
				}
				if !strings.Contains(err.Error(), "version") {
					t.Errorf("%s: the start is refused: %v", what, err)
				}
			}
		}
		t.Logf("%s: %d bytes in use, %d starts", name, len(whole), starts-before)
	}
	t.Logf("%d starts, %d of them refused; after %d some records were stored twice", starts, refused, doubled)
}
