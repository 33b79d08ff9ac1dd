package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/telemetry"
)

// account is what /metrics says of the records of one input.
type account struct {
	read, restored, accepted, quarantined, dropped, filtered, pending, spooled float64
}

func (a account) check() error {
	in, out := a.read+a.restored, a.accepted+a.quarantined+a.dropped+a.filtered+a.pending+a.spooled
	if in != out || a.pending < 0 || a.pending > in {
		return fmt.Errorf("books do not close: %+v", a)
	}
	return nil
}

// add takes one line of the Prometheus text over.
func (a *account) add(metric string, v float64) {
	for name, to := range map[string]*float64{
		"records_read_total": &a.read, "records_restored_total": &a.restored, "records_accepted_total": &a.accepted,
		"records_quarantined_total": &a.quarantined, "records_dropped_total": &a.dropped, "records_filtered_total": &a.filtered,
		"records_pending": &a.pending, "records_spooled": &a.spooled,
	} {
		if metric == "kusto_agent_"+name {
			*to += v
		}
	}
}

// client opens a connection for each request, so that none is left idle.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// get asks the telemetry of the process.
func (p *process) get(path string) (int, string, error) {
	found := p.entries("telemetry endpoint is listening")
	if len(found) == 0 {
		return 0, "", fmt.Errorf("it does not listen yet")
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+found[0].text("address")+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// mustGet asks a process that runs.
func (p *process) mustGet(path string) (int, string) {
	p.t.Helper()
	p.await(1, "telemetry endpoint is listening")
	code, text, err := p.get(path)
	if err != nil {
		p.t.Fatal(err)
	}
	return code, text
}

// status reads /api/v1/status.
func (p *process) status() telemetry.Status {
	p.t.Helper()
	_, text := p.mustGet("/api/v1/status")
	var s telemetry.Status
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// metric is the sum of a metric over all lines that hold the labels.
func (p *process) metric(name string, labels ...string) float64 {
	p.t.Helper()
	_, text := p.mustGet("/metrics")
	return metricIn(text, name, labels...)
}

// metricIn is the same of an answer.
func metricIn(text, name string, labels ...string) (sum float64) {
lines:
	for line := range strings.Lines(text) {
		metric, labelled, v := sample(line)
		if metric != "kusto_agent_"+name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(labelled, l) {
				continue lines
			}
		}
		sum += v
	}
	return sum
}

// sample cuts a line of the Prometheus text; a comment has no name.
func sample(line string) (name, labels string, v float64) {
	line = strings.TrimSpace(line)
	i := strings.LastIndexByte(line, ' ')
	if i < 0 || line[0] == '#' {
		return "", "", 0
	}
	v, err := strconv.ParseFloat(line[i+1:], 64)
	if err != nil {
		v = math.NaN()
	}
	name, labels, _ = strings.Cut(line[:i], "{")
	return name, labels, v
}

// books asks /metrics and /api/v1/status, both of which must close, and
// returns the accounts by input.
func (p *process) books() (map[string]account, error) {
	_, text, err := p.get("/metrics")
	if err != nil {
		return nil, err
	}
	all := make(map[string]account)
	for line := range strings.Lines(text) {
		metric, labels, v := sample(line)
		_, input, _ := strings.Cut(labels, `input="`)
		input, _, found := strings.Cut(input, `"`)
		if found {
			a := all[input]
			a.add(metric, v)
			all[input] = a
		}
	}
	var ended account // of all inputs
	for input, a := range all {
		if err := a.check(); err != nil {
			p.t.Errorf("/metrics: input %s: %v", input, err)
		}
		ended.accepted, ended.quarantined, ended.dropped = ended.accepted+a.accepted, ended.quarantined+a.quarantined, ended.dropped+a.dropped
	}
	for outcome, want := range map[string]float64{"accepted": ended.accepted, "quarantined": ended.quarantined, "dropped": ended.dropped} {
		if got := metricIn(text, "table_records_total", `outcome="`+outcome+`"`); got != want {
			p.t.Errorf("/metrics: %v %s records of all tables, %v of all inputs", got, outcome, want)
		}
	}
	if _, text, err = p.get("/api/v1/status"); err != nil {
		return nil, err
	}
	var s telemetry.Status
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("status document: %w", err)
	}
	for _, in := range s.Inputs {
		b := in.Books
		sum := func(m map[string]uint64) (n float64) {
			for _, v := range m {
				n += float64(v)
			}
			return n
		}
		a := account{
			float64(b.Read), float64(b.Restored), float64(b.Accepted), sum(b.Quarantined),
			sum(b.Dropped), sum(b.Filtered), float64(b.Pending), float64(b.Spooled),
		}
		if err := a.check(); err != nil {
			p.t.Errorf("/api/v1/status: input %s: %v", in.Name, err)
		}
	}
	return all, nil
}

// mustBooks are the accounts of a process that runs.
func (p *process) mustBooks() map[string]account {
	p.t.Helper()
	p.await(1, "telemetry endpoint is listening")
	all, err := p.books()
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// wantBooks expects an account of an input.
func (p *process) wantBooks(input string, want account) {
	p.t.Helper()
	if got := p.mustBooks()[input]; got != want {
		p.t.Errorf("books of %s:\n got %+v\nwant %+v", input, got, want)
	}
}

// watchBooks looks into the books again and again while requests end, until
// the process does.
func (p *process) watchBooks() {
	watched := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	// Started here, ended by the end of the process, awaited by Cleanup.
	go func() {
		defer close(watched)
		for ctx.Err() == nil {
			n := p.site.server.Totals().Requests
			_, _ = p.books() // it may not listen yet, or no longer
			_ = p.site.server.WaitRequests(ctx, n+1+n/8)
		}
	}()
	// Started here, ended by the end of the process.
	go func() {
		<-p.ended
		cancel()
	}()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-watched
	})
}

// awaitBooks waits until the account of an input is as asked for. It looks
// again when a request has ended, and whenever the agent has answered.
func (p *process) awaitBooks(input string, enough func(account) bool) {
	p.t.Helper()
	ctx, cancel := p.site.waiting()
	defer cancel()
	for ctx.Err() == nil {
		if enough(p.mustBooks()[input]) {
			return
		}
	}
	p.t.Fatalf("books of %s: %+v", input, p.mustBooks()[input])
}

// TestTablesInMetrics: what two inputs have accepted, malformed, too long and refused
// of one table, and what another gave up, stands in the metrics of the tables, records
// and bytes.
func TestTablesInMetrics(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do"}, Status: 400})
	s.server.Fail(emulator.Fault{Match: emulator.Match{Table: "Old"}, Status: 503})
	good, malformed := jsonRecords(0, 20), badRecords(2)
	refused := []string{`{"seq":100,"note":"wont-do"}`}
	long := []string{`{"seq":101,"note":"` + strings.Repeat("x", 2000) + `"}`}
	old := jsonRecords(200, 4)
	s.write("logs/a.json", joined(good[:15])+joined(malformed)+joined(refused))
	s.write("logs/b.json", joined(good[15:])+joined(long))
	s.write("logs/c.json", joined(old))
	p := s.run(open + hasty + `spool: {max_age: 200ms}
inputs:
  - {name: app, paths: ["${DIR}/logs/a.json"], table: T, mapping: m}
  - {name: more, paths: ["${DIR}/logs/b.json"], table: T, mapping: m, max_record_size: 1000B}
  - {name: old, paths: ["${DIR}/logs/c.json"], table: Old, mapping: m}
`)
	p.awaitBooks("app", func(a account) bool { return a == account{read: 18, accepted: 15, quarantined: 3} })
	p.awaitBooks("more", func(a account) bool { return a == account{read: 6, accepted: 5, quarantined: 1} })
	p.awaitBooks("old", func(a account) bool { return a == account{read: 4, dropped: 4} })
	_, text := p.mustGet("/metrics")
	f := func(table, outcome string, records ...[]string) {
		t.Helper()
		all := slices.Concat(records...)
		size := 0
		for _, r := range all {
			size += len(r) + len("\n")
		}
		labels := []string{`table="` + table + `"`, `database="Logs"`, `outcome="` + outcome + `"`}
		n, bytes := metricIn(text, "table_records_total", labels...), metricIn(text, "table_bytes_total", labels...)
		if int(n) != len(all) || int(bytes) != size {
			t.Errorf("%s %s: %v records of %v bytes, want %d of %d", table, outcome, n, bytes, len(all), size)
		}
	}
	f("T", "accepted", good)
	f("T", "quarantined", malformed, refused, long)
	f("T", "dropped")
	f("Old", "accepted")
	f("Old", "dropped", old)
	if got := p.metric("input_info", `input="more"`, `cluster="default"`, `database="Logs"`, `table="T"`, `format="JSON"`, `mapping="m"`); got != 1 {
		t.Errorf("input_info %v", got)
	}
}
