package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kusto-agent/emulator"
)

var ruledLevels = []string{"debug", "info", "warn"}

func ruledLine(n int) string {
	return fmt.Sprintf(`{"seq":"%08d","level":"%s","trace":"%04d","note":"%s"}`, n, ruledLevels[n*7/3%3], n%97, strings.Repeat(strconv.Itoa(n), 20)) + "\n"
}

// TestRulesOverKills: what rules leave out is never stored, whatever is killed and made
// again, and each other record is; of a sample all records of a key are, or none. The
// books of each run close.
func TestRulesOverKills(t *testing.T) {
	t.Parallel()
	const records, last, runs = 40_000, 3_000, 3 // so many are written before the last run, which has them to read at least
	s := newSite(t, emulator.Options{KeepRequests: 1 << 20})
	s.server.Fail(emulator.Fault{When: emulator.AfterCommit, Delay: 2_000_000})
	var file strings.Builder
	want := map[string]bool{}
	for n := range records {
		line := ruledLine(n)
		file.WriteString(line)
		if n%10 == 0 {
			file.WriteString("\n")
		}
		if !strings.Contains(line, `"level":"debug"`) && !strings.Contains(line, `"seq":"000012`) {
			want[strings.TrimSuffix(line, "\n")] = true
		}
	}
	split := strings.Index(file.String(), ruledLine(records-last))
	s.write("logs/a.json", file.String()[:split])
	config := open + `batch: {max_size: 64KiB}
inputs: [{paths: ["${DIR}/logs/*.json"], table: T, mapping: m, keep: [{match: .}], drop: [{name: noise, member: level, in: [debug]}, {match: '"seq":"000012'}], sample: {rate: 0.9, by: trace}}]`
	for n := range runs {
		p := s.run(config)
		s.awaitRows("T", len(want)*(n+1)/(runs+2))
		p.kill()
	}
	s.write("logs/b.json", file.String()[split:])
	p := s.run(config)
	var books account
	read := false // before the books at hand were asked for
	p.awaitBooks("T", func(now account) bool {
		if read && now.pending == 0 {
			books = now
			return true
		}
		read = p.allRead()
		return false
	})
	if noise := p.metric("records_filtered_total", `reason="noise"`); noise == 0 || books.filtered <= noise || books.quarantined+books.dropped > 0 {
		t.Errorf("%v are noise, books %+v", noise, books)
	}
	sampled := p.metric("records_filtered_total", `reason="sample"`)
	p.stop()
	for row := range s.server.All("Logs", "T", 0) {
		if _, there := want[string(row.Raw)]; !there {
			t.Fatalf("stored %s", row.Raw)
		}
		want[string(row.Raw)] = false
	}
	missing, all := map[string]int{}, map[string]int{}
	for line, m := range want {
		_, trace, _ := strings.Cut(line, `"trace":"`)
		if all[trace[:4]]++; m {
			missing[trace[:4]]++
		}
	}
	for trace, n := range missing {
		if n != all[trace] {
			t.Errorf("of trace %s %d records of %d are missing", trace, n, all[trace])
		}
	}
	if len(missing) == 0 || len(missing) > 30 || sampled == 0 {
		t.Errorf("%d traces of 97 are left out, and %v records of the last run", len(missing), sampled)
	}
	s.wantUniqueRequests()
}

// TestRulesAndRefusals: a refused record between records that rules leave out is found
// in its file.
func TestRulesAndRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do"}, Status: 400})
	lines := []string{"x 0\n", "one\n", "x 1\n", "two wont-do\n", "x wont-do\n", "three\n", "x 3\n", "\n", "wont-do\n", "x"}
	text := strings.Join(lines, "")
	s.write("logs/a.txt", text)
	s.once(open+`inputs: [{paths: ["${DIR}/logs/*.txt"], table: T, drop: [{match: ^x}]}]`, 1)
	s.wantHeld("logs/a.txt", place("refused", text, lines[3]), fmt.Sprintf("refused %d+8", strings.LastIndex(text, "wont-do")))
	var stored []string
	for row := range s.server.All("Logs", "T", 0) {
		stored = append(stored, string(row.Raw))
	}
	if slices.Sort(stored); !slices.Equal(stored, []string{"one", "three"}) {
		t.Errorf("stored %q", stored)
	}
	s.wantUniqueRequests()
}

// TestPreviewByRules: preview shows what rules leave.
func TestPreviewByRules(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.txt", "x\none\nx\n")
	s.write("agent.yaml", open+`inputs: [{paths: ["${DIR}/logs/*.txt"], table: T, drop: [{match: ^y}, {name: some, match: ^x}]}]`)
	out, words := s.show(0, "preview", "--config", s.path("agent.yaml"), "T")
	if !strings.HasSuffix(out, "\n\none") || !strings.Contains(words, "left out: 0 drop_1, 2 some") {
		t.Errorf("preview shows %s\n%s", out, words)
	}
	out, _ = s.show(0, "preview", "--json", "--config", s.path("agent.yaml"), "T")
	if !strings.Contains(out, `"filtered":{"drop_1":0,"some":2}`) {
		t.Errorf("preview shows %s", out)
	}
	s.write("logs/a.txt", "x\nx\n")
	_, words = s.show(1, "preview", "--config", s.path("agent.yaml"), "T")
	if !strings.HasSuffix(words, "there is nothing to send for input T: all of it is left out: 0 drop_1, 2 some") {
		t.Errorf("preview says %s", words)
	}
}
