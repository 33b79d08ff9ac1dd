package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kusto-agent/emulator"
)

// quarantined reads the lines in quarantine.
func (s *site) quarantined() (all []map[string]any) {
	s.t.Helper()
	names, err := filepath.Glob(s.path("state/quarantine/*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var q map[string]any
			if err := json.Unmarshal([]byte(line), &q); err != nil {
				s.t.Fatalf("%s: %v: %q", name, err, line)
			}
			all = append(all, q)
		}
	}
	return all
}

// wantQuarantine expects one line for each of the records, each pointing at
// its record in the file. It returns the lines in the order of the offsets.
func (s *site) wantQuarantine(file string, records ...string) []map[string]any {
	s.t.Helper()
	keys := []string{"code", "cluster", "data", "database", "file", "format", "generation", "input", "length", "mapping",
		"message", "offset", "path", "reason", "table", "time", "truncated"}
	slices.Sort(keys)
	text := s.read(file)
	all := s.quarantined()
	slices.SortFunc(all, func(a, b map[string]any) int { return int(a["offset"].(float64) - b["offset"].(float64)) })
	if len(all) != len(records) {
		s.t.Fatalf("%d lines in quarantine, want %d: %v", len(all), len(records), all)
	}
	for i, q := range all {
		if got := slices.Sorted(maps.Keys(q)); !slices.Equal(got, keys) {
			s.t.Errorf("keys %v, want %v", got, keys)
		}
		at, length := int(q["offset"].(float64)), int(q["length"].(float64))
		if at < 0 || at+length > len(text) || strings.TrimSuffix(text[at:at+length], "\n") != records[i] {
			s.t.Errorf("line %d points at [%d,%d) of %s, want %q there", i, at, at+length, file, records[i])
		}
		data, _ := q["data"].(string)
		if strings.TrimSuffix(data, "\n") != records[i] && q["truncated"] != true {
			s.t.Errorf("line %d holds %q, want %q", i, data, records[i])
		}
		if q["path"] != s.path(file) {
			s.t.Errorf("line %d: path %q", i, q["path"])
		}
	}
	return all
}

// TestRefusedRecordsStandAlone: of a batch with three records the service will
// not take, those three go to quarantine and all others are stored once.
func TestRefusedRecordsStandAlone(t *testing.T) {
	t.Parallel()
	f := func(name, file, input string, records []string, bad ...int) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			var refused, good []string
			for i, r := range records {
				if slices.Contains(bad, i) {
					refused = append(refused, r)
				} else {
					good = append(good, r)
				}
			}
			s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do"}, Status: 400})
			s.write(file, "\n"+joined(records))
			s.once(open+"inputs: ["+input+"]", 1)
			s.wantRows("T", good)
			lines := s.wantQuarantine(file, refused...)
			for _, q := range lines {
				for key, want := range map[string]any{
					"input": "T", "cluster": s.url, "database": "Logs", "table": "T", "reason": "refused", "generation": 0.0, "truncated": false,
				} {
					if q[key] != want {
						t.Errorf("%s: %v, want %v", key, q[key], want)
					}
				}
				if q["code"] == "" || q["message"] == "" {
					t.Errorf("the service's words are missing: %v", q)
				}
			}
			s.wantUniqueRequests()
			requests := s.server.Totals().Requests
			s.once(open+"inputs: ["+input+"]", 0)
			if again := s.server.Totals().Requests; again != requests {
				t.Errorf("a second run made %d requests", again-requests)
			}
		})
	}
	text := make([]string, 0, 500)
	for _, r := range jsonRecords(0, 500) {
		text = append(text, strings.Trim(r, "{}"))
	}
	mark := func(records []string, put func(string) string, at ...int) []string {
		records = slices.Clone(records)
		for _, i := range at {
			records[i] = put(records[i])
		}
		return records
	}
	inJSON := func(r string) string { return strings.Replace(r, recordMark, "wont-do", 1) }
	f("JSON", "logs/a.json", `{paths: ["${DIR}/logs/*.json"], table: T, mapping: m}`, mark(jsonRecords(0, 500), inJSON, 0, 250, 499), 0, 250, 499)
	f("TXT", "logs/a.log", `{paths: ["${DIR}/logs/*.log"], table: T}`, mark(text, inJSON, 17, 18, 499), 17, 18, 499)
	rows := make([]string, 300)
	for i := range rows {
		rows[i] = strings.Repeat("x", i) + `,"line` + "\n" + `two ` + recordMark + `"`
	}
	f("CSV", "logs/a.csv", `{paths: ["${DIR}/logs/*.csv"], table: T}`, mark(rows, inJSON, 1, 100, 298), 1, 100, 298)
	f("all", "logs/a.log", `{paths: ["${DIR}/logs/*.log"], table: T}`, mark(text[:4], inJSON, 0, 1, 2, 3), 0, 1, 2, 3)
}

// TestMalformedRecordsAreKept: what the local check refuses is not sent.
func TestMalformedRecordsAreKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	good := jsonRecords(0, 10)
	long := `{"long":"` + strings.Repeat("y", 3000) + `"}`
	s.write("logs/a.json", joined(good[:5])+"{\"open\":\n"+long+"\nno json\n"+joined(good[5:]))
	s.once(open+`inputs: [{paths: ["${DIR}/logs/*.json"], table: T, mapping: m, max_record_size: 2KiB}]`, 1)
	s.wantRows("T", good)
	lines := s.wantQuarantine("logs/a.json", `{"open":`, long, "no json")
	for i, reason := range []string{"malformed", "too_long", "malformed"} {
		if lines[i]["reason"] != reason {
			t.Errorf("line %d: reason %v, want %s", i, lines[i]["reason"], reason)
		}
	}
	if n := s.server.Totals().ByStatus[400]; n != 0 {
		t.Errorf("%d requests were refused", n)
	}
}

// TestUnknownOutcomes: an answer that is lost after the rows were stored leads
// to one more request of the same bytes, and to one double of each row.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	f := func(name string, fault emulator.Fault, stored bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			records := jsonRecords(0, 2000)
			s.write("logs/a.json", joined(records))
			fault.Skip, fault.Times = 1, 3
			struck := s.server.Fail(fault)
			p := s.run(open + "batch: {max_records: 100}\nsend: {concurrency: 2, timeout: 5s, retry: {initial: 10ms}}\n" +
				`inputs: [{paths: ["${DIR}/logs/*.json"], table: T, mapping: m}]`)
			want := 2000
			if stored {
				want += 300
			}
			s.awaitHits(struck, 3)
			s.awaitRows("T", want)
			p.awaitBooks("T", func(a account) bool { return a.accepted == 2000 })
			if got := p.metric("unknown_outcomes_total"); got != 3 {
				t.Errorf("unknown_outcomes_total %v, want 3", got)
			}
			if got := p.metric("requests_total", `outcome="unknown"`); got != 3 {
				t.Errorf("requests_total{outcome=unknown} %v, want 3", got)
			}
			if got := p.metric("retries_total"); got != 3 {
				t.Errorf("retries_total %v, want 3", got)
			}
			p.stop()

			s.wantUniqueRequests()
			double := make(map[string]int) // attempts of each batch that stored
			for _, r := range s.server.Requests() {
				if r.Stored {
					double[batchOf(r)]++
				}
			}
			extra := 0
			for _, n := range double {
				extra += n - 1
			}
			if len(double) != 20 || stored && extra != 3 || !stored && extra != 0 {
				t.Errorf("%d batches, %d stored again", len(double), extra)
			}
			s.wantAttempts()
			// The restart finds nothing in doubt.
			requests := s.server.Totals().Requests
			again := s.once(s.read("agent.yaml"), 0)
			if n := s.server.Totals().Requests - requests; n != 0 || len(again.entries(sentAgain)) != 0 {
				t.Errorf("after the restart: %d requests", n)
			}
		})
	}
	f("reset after commit", emulator.Fault{Reset: true, When: emulator.AfterCommit}, true)
	f("reset before commit", emulator.Fault{Reset: true}, false)
	f("gateway page", emulator.Fault{Status: 502, When: emulator.AfterCommit}, true)
	f("a stranger's 200", emulator.Fault{Status: 200, As: emulator.AsHTML, Header: map[string]string{"x-ms-activity-id": ""}}, false)
	f("answer cut", emulator.Fault{Status: 200, When: emulator.AfterCommit, Truncate: true}, true)
}

// wantAttempts: the attempts of each batch are counted from 1 without a gap.
func (s *site) wantAttempts() {
	s.t.Helper()
	attempts := make(map[string][]int)
	for _, r := range s.server.Requests() {
		attempts[batchOf(r)] = append(attempts[batchOf(r)], r.Attempt)
	}
	for batch, got := range attempts {
		slices.Sort(got)
		for i, n := range got {
			if n != i+1 {
				s.t.Errorf("batch %s: attempts %v", batch, got)
				break
			}
		}
	}
}

// TestNotSentIsNoOutcome: a body that was not written whole cannot be double.
func TestNotSentIsNoOutcome(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	records := jsonRecords(0, 20000)
	s.write("logs/a.json", joined(records))
	s.server.Fail(emulator.Fault{Status: 503, When: emulator.OnArrival, Times: 3})
	s.server.Fail(emulator.Fault{Status: 429, Header: map[string]string{"Retry-After": "0"}, Times: 3})
	s.once(open+"send: {retry: {initial: 10ms}}\n"+`inputs: [{paths: ["${DIR}/logs/*.json"], table: T, mapping: m}]`, 0)
	s.wantRows("T", records)
	s.wantUniqueRequests()
}
