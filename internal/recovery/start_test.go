package recovery_test

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kusto-agent/internal/journal"
	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
	"kusto-agent/internal/recovery"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

// childEnv names the folder of a start that a process of its own makes.
const childEnv = "KUSTO_AGENT_START_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// stores are a spool and a journal that agree.
type stores struct {
	spool   *spool.Spool
	journal *journal.Journal
	books   *ledger.Ledger
}

func (s *stores) close() error {
	if err := s.spool.Close(); err != nil {
		return err
	}
	return s.journal.Close()
}

// start opens both and has them agree, as an agent does.
func start(dir string) (s *stores, err error) {
	s = &stores{books: ledger.New()}
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	var held *spool.Recovery
	s.spool, held, err = spool.Open(filepath.Join(dir, "spool"), spool.Config{MaxSize: 64 * units.GiB, WhenFull: "block"}, spool.Options{
		Logger: logger, BeforeUnlink: func() error { return s.journal.Sync() },
		Vouch:   func() ([24]byte, error) { return s.journal.Vouch() },
		Vouches: func(token [24]byte) bool { return s.journal.Vouches(token) },
	})
	if err != nil {
		return nil, err
	}
	var found *journal.Recovery
	if s.journal, found, err = journal.Open(filepath.Join(dir, "journal"), journal.DefaultConfig(), journal.Options{Logger: logger, Agent: held.Agent}); err != nil {
		return nil, err
	}
	r := recovery.New(recovery.Stores{
		Journal: s.journal, Frames: s.journal, Ranges: s.journal, Spool: s.spool, SpoolHas: s.journal.SpoolHas, Books: s.books, Logger: logger,
	})
	what := recovery.Found{
		Replays: found.Replays, Answered: found.Answered, Ended: found.Ended, Clean: found.Clean,
		Report: func() (bool, []*record.Payload) { return held.Lost || held.Torn || found.Holes, held.Missing },
	}
	for i := range found.Begun {
		what.Begun = append(what.Begun, &found.Begun[i].Payload)
	}
	return s, r.Reconcile(what)
}

// child makes a start, and says how long it took, how much memory the process had at
// most, and how many payloads there are.
func child(dir string) error {
	began := time.Now()
	s, err := start(dir)
	if err != nil {
		return err
	}
	took := time.Since(began)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Println(took.Microseconds(), strings.Fields(peak)[0], s.spool.Stats().Frames, s.books.Snapshot()["in"].Spooled)
	if os.Getenv(childEnv+"_KILL") != "" {
		return nil
	}
	return s.close()
}

var file = record.File{Input: "in", ID: 1, Generation: 1}

// numbered is a payload of 1 kB of one of 200 tables, of very different rates.
func numbered(n int) *record.Payload {
	h := uint64(n) * 0x9e3779b97f4a7c15
	h ^= h >> 32
	i := 0
	for i < 10 && h>>i&1 == 0 {
		i++
	}
	if i == 10 {
		i = int(h>>10) % 200
	}
	span := record.Span{Start: int64(n) * 1000, End: int64(n)*1000 + 1000}
	p := &record.Payload{
		Route:   record.Route{Cluster: "https://cluster.example.com", Database: "db", Table: fmt.Sprint("table", i), Format: "txt", Mapping: "map"},
		Records: 1, RawBytes: 1000, ReadAt: time.Unix(int64(n), 0), Body: body,
		Cover:  []record.Extent{{File: file, Span: span, Mark: record.Mark(n)}},
		Pieces: []record.Piece{{File: file, Span: span, Records: 1}},
	}
	for j := range p.ID {
		p.ID[j] = byte(h >> (j % 8 * 8))
		if j == 7 {
			h = (h + 1) * 0xbf58476d1ce4e5b9
		}
	}
	return p
}

var body = make([]byte, 1000)

// fill leaves a spool of kept payloads in dir, and a journal that has them all safe. Of
// the last it has what a sender tells.
func fill(b *testing.B, dir string, kept int) {
	s, err := start(dir)
	if err != nil {
		b.Fatal(err)
	}
	told := max(0, kept-20_000)
	if err := s.journal.Skip(file, record.Span{End: int64(told) * 1000}, 1); err != nil {
		b.Fatal(err)
	}
	var at atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for n := int(at.Add(1)) - 1; n < kept; n = int(at.Add(1)) - 1 {
				p := numbered(n)
				var err error
				if n >= told {
					err = s.journal.Begin(p)
				}
				if err == nil {
					err = s.spool.Put(p)
				}
				if err == nil && n >= told {
					err = s.journal.End(p.ID, record.Spooled)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := s.close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkStart is a start of a process of its own on START_GIB of payloads of 1 kB in
// 200 tables, kept in START_DIR for the next time: spool and journal are opened and
// agree. START_KILL has every process end without a word.
func BenchmarkStart(b *testing.B) {
	const each = 1200 // bytes, about
	gib, err := strconv.Atoi(cmp.Or(os.Getenv("START_GIB"), "0"))
	if err != nil {
		b.Fatal(err)
	}
	kept, dir := gib<<30/each, os.Getenv("START_DIR")
	if kept == 0 {
		kept, dir = 20_000, b.TempDir()
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) == 0 {
		fill(b, dir, kept)
	}
	var took, peak, frames, spooled, most int
	var used time.Duration
	for b.Loop() {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		if os.Getenv("START_KILL") != "" {
			cmd.Env = append(cmd.Env, childEnv+"_KILL=1")
		}
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		one := 0
		if _, err := fmt.Sscan(string(out), &one, &peak, &frames, &spooled); err != nil || frames != kept || spooled != kept {
			b.Fatalf("%d payloads of %d records, want %d: %q %v", frames, spooled, kept, out, err)
		}
		took, most = took+one, max(most, peak)
		used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms/start")
	b.ReportMetric(float64(took)/float64(b.N)/1000, "ms/start")
	b.ReportMetric(float64(most)/1024, "MiB-peak")
	b.ReportMetric(float64(frames), "payloads")
}
