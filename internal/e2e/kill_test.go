package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"kusto-agent/emulator"
)

// crash is a steady run that is killed again and again: an application that
// numbers its records and rotates its file, an agent, and an endpoint.
type crash struct {
	*site
	records int // in all
	perFile int // before the file is rotated
	kills   int
	ahead   int // records the application is ahead of the endpoint, at most
	config  string
}

// Each record has the same length, so that its number tells its place.
const crashRecord = 500

func crashLine(seq int) string {
	line := fmt.Sprintf(`{"seq":"%012d","note":"%s `, seq, recordMark)
	fill := strings.Repeat(strconv.Itoa(seq), crashRecord/len(strconv.Itoa(seq))+1)
	return line + fill[:crashRecord-len(line)-3] + "\"}\n"
}

// TestKills: kill -9 at any moment loses nothing and doubles only what was
// begun and not ended, each batch of which is named at the next start.
func TestKills(t *testing.T) {
	t.Parallel()
	c := crash{records: 130_000, perFile: 20_000, kills: 3, ahead: 30_000, config: "batch: {max_size: 256KiB}\n"}
	switch {
	case longForm:
		c.records, c.perFile, c.kills, c.ahead, c.config = 1<<30/crashRecord, 200_000, 10, 300_000, ""
	case testing.Short():
		c.records, c.perFile, c.kills, c.ahead = 30_000, 8_000, 2, 10_000
	}
	c.site = newSite(t, emulator.Options{KeepRequests: 1 << 20})
	// Between the commit and its answer a kill does the most harm.
	c.server.Fail(emulator.Fault{When: emulator.AfterCommit, Delay: 5_000_000})
	c.run(t)
}

func (c *crash) run(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	config := open + c.config + `inputs: [{paths: ["${DIR}/logs/app.json*"], format: JSON, table: T, mapping: m}]`

	written := make(chan struct{})
	// Started here, ended when all is written or the test fails, awaited below.
	go func() {
		defer close(written)
		c.apply()
	}()
	var named []span
	for n := range c.kills {
		p := c.site.run(config)
		c.awaitRows("T", (c.records*n+random.IntN(c.records))/(c.kills+1))
		p.kill()
		named = append(named, c.named(p)...)
	}
	p := c.site.run(config)
	<-written
	p.awaitBooks("T", func(account) bool { return c.server.RowCount("Logs", "T") >= c.records && p.allRead() })
	named = append(named, c.named(p)...)
	paths := make(map[string]string)
	for _, f := range p.status().Files {
		paths[f.ID] = f.Path
	}
	p.stop()
	c.compare(named, paths)
	c.wantUniqueRequests()
}

// apply is the application. It waits for the endpoint now and then: the run
// is to be steady, and the kills are to fall into it.
func (c *crash) apply() {
	var b strings.Builder
	for seq := 0; seq < c.records; {
		b.Reset()
		for end := min(seq+100, c.records); seq < end; seq++ {
			b.WriteString(crashLine(seq))
		}
		c.append("logs/app.json", b.String())
		if seq%c.perFile == 0 {
			c.rename("logs/app.json", fmt.Sprintf("logs/app.json.%04d", seq/c.perFile-1))
		}
		if err := c.server.WaitRows(c.t.Context(), "Logs", "T", seq-c.ahead); err != nil {
			return
		}
	}
}

// span is a range of a file, by the id the log tells.
type span struct {
	batch, id  string
	start, end int64
}

var rangeText = regexp.MustCompile(`^T/([0-9a-f]{16})/0\[(\d+),(\d+)\)$`)

// sendsAgain reads the ranges of the batches the agent says it sends again.
func (p *process) sendsAgain() (all []span) {
	p.t.Helper()
	for _, e := range p.entries(sentAgain) {
		for _, text := range strings.Fields(e.text("ranges")) {
			m := rangeText.FindStringSubmatch(text)
			if m == nil {
				p.t.Fatalf("not a range: %q in %v", text, e)
			}
			start, _ := strconv.ParseInt(m[2], 10, 64)
			end, _ := strconv.ParseInt(m[3], 10, 64)
			all = append(all, span{e.text("batch"), m[1], start, end})
		}
	}
	return all
}

// named reads what the agent says it sends again, and expects that it lost nothing.
func (c *crash) named(p *process) []span {
	c.t.Helper()
	for _, word := range []string{"truncated or replaced", "another body", "source is gone", "rewritten"} {
		if strings.Contains(p.log.text(), word) {
			c.t.Errorf("the log has %q:\n%s", word, p.log.text())
		}
	}
	return p.sendsAgain()
}

// compare checks every row: none is missing or corrupt, and each is stored at
// most once more than there are ranges named that hold it.
func (c *crash) compare(named []span, paths map[string]string) {
	c.t.Helper()
	stored := make([]uint8, c.records)
	for row := range c.server.All("Logs", "T", 0) {
		seq, err := strconv.Atoi(string(row.Raw[8:20]))
		if err != nil || seq >= c.records || string(row.Raw)+"\n" != crashLine(seq) {
			c.t.Fatalf("a row that was never written: %.100q", row.Raw)
		}
		stored[seq]++
	}
	allowed := make([]uint8, c.records)
	for _, s := range named {
		first := c.firstOf(paths[s.id])
		for at := s.start; at < s.end; at += crashRecord {
			allowed[first+int(at/crashRecord)]++
		}
	}
	missing, unnamed, double := 0, 0, 0
	for seq, n := range stored {
		switch {
		case n == 0:
			missing++
		case n > 1+allowed[seq]:
			unnamed++
		case n > 1:
			double++
		}
	}
	c.t.Logf("%d ranges named, %d records double", len(named), double)
	if missing > 0 || unnamed > 0 {
		c.t.Errorf("%d records missing, %d double that were not named", missing, unnamed)
	}
	if _, err := os.Stat(c.path("state/quarantine")); err == nil && len(c.quarantined()) > 0 {
		c.t.Errorf("%d records in quarantine", len(c.quarantined()))
	}
}

// firstOf is the number of the first record in a file.
func (c *crash) firstOf(path string) int {
	c.t.Helper()
	name := filepath.Base(path)
	if name == "app.json" {
		return c.records - c.records%c.perFile
	}
	n, err := strconv.Atoi(strings.TrimPrefix(name, "app.json."))
	if err != nil {
		c.t.Fatalf("file %q: %v", path, err)
	}
	return n * c.perFile
}
