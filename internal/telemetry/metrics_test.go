package telemetry

import (
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
)

// scrape reads /metrics as Prometheus does.
func scrape(t *testing.T, s *Server) map[string]*dto.MetricFamily {
	t.Helper()
	answer := get(s, "/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// get asks the handler as a local browser would.
func get(s *Server, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "localhost:5878"
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// value adds up the samples of a family that have all of the labels,
// given as name=value.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) (sum float64) {
	for _, m := range families["kusto_agent_"+name].GetMetric() {
		var have []string
		for _, l := range m.GetLabel() {
			have = append(have, l.GetName()+"="+l.GetValue())
		}
		if slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(have, l) }) {
			continue
		}
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

func TestEveryMetricSaysWhatHappened(t *testing.T) {
	now := time.Now()
	status, l := busy(now)
	status.Spool = &Spool{Bytes: 4096, Oldest: now.Add(-time.Hour)}
	status.Files[0].Pinned = 512
	s := serverFor(status, l)
	m := s.Metrics()
	m.Request(OutcomeAccepted, "200", 30*time.Millisecond)
	m.Request(OutcomeRefused, "429", time.Millisecond)
	m.Request(OutcomeNotSent, NoCode, time.Second)
	m.EndToEnd(record.Route{Database: "Logs", Table: "App"}, time.Second)
	m.Sealed(1000, 250)
	m.GzipFault()
	m.Retry()
	m.Unknown(40)
	m.Input("nginx")
	m.Rotation("app")
	m.Truncation("app", 512)
	m.NULs("app", 4096)
	m.Abandoned("app", 64)
	m.Vanished("app")
	m.InvalidUTF8("app", 3)
	m.Unparsed("app", 2)

	families := scrape(t, s)
	f := func(want float64, name string, labels ...string) {
		t.Helper()
		if families["kusto_agent_"+name] == nil {
			t.Errorf("%s is missing", name)
		} else if got := value(families, name, labels...); got != want {
			t.Errorf("%s%v = %v, want %v", name, labels, got, want)
		}
	}
	f(512, "pinned_deleted_bytes", "input=app")
	f(0, "pinned_deleted_bytes", "input=nginx")
	f(8_412_793, "records_read_total", "input=app")
	f(2_791_000_512, "bytes_read_total", "input=app")
	f(8_401_120, "records_accepted_total", "input=app")
	f(3, "records_quarantined_total", "input=app", "reason=malformed")
	f(0, "records_quarantined_total", "input=app", "reason=refused")
	f(0, "records_dropped_total", "reason=source_gone")
	f(31, "records_filtered_total", "input=orders", "reason=header")
	f(0, "records_restored_total")
	f(11_656, "records_pending", "input=app")
	f(0, "records_spooled")
	f(8_401_120, "table_records_total", "database=Logs", "table=App", "outcome=accepted")
	f(840_112_000, "table_bytes_total", "database=Logs", "table=App", "outcome=accepted")
	f(3, "table_records_total", "database=Logs", "outcome=quarantined")
	f(300, "table_bytes_total", "outcome=quarantined")
	f(0, "table_records_total", "database=Sales", "table=Orders", "outcome=dropped")
	f(1, "requests_total", "outcome=accepted", "code=200")
	f(1, "requests_total", "outcome=refused", "code=429")
	f(1, "requests_total", "outcome=not_sent", "code=none")
	f(0, "requests_total", "outcome=unknown", "code=none")
	f(2, "request_duration_seconds") // what was not sent has no duration
	f(1, "end_to_end_seconds", "database=Logs", "table=App")
	f(1000, "batch_raw_bytes_total")
	f(250, "batch_gzip_bytes_total")
	f(1, "retries_total")
	f(1, "unknown_outcomes_total")
	f(1, "gzip_encoder_faults_total")
	f(40, "unknown_records_total")
	f(4096, "spool_bytes")
	f(1, "spool_healthy")
	f(2, "routes", "state=up")
	f(1, "routes", "state=held")
	f(0, "routes", "state=down")
	f(1, "routes_held", "database=Sales", "table=Orders", "code=BadRequest_EntityNotFound")
	f(2, "files", "state=idle")
	f(3_099_888, "file_lag_bytes", "input=app")
	f(1, "tail_rotations_total", "input=app")
	f(0, "tail_rotations_total", "input=nginx")
	f(1, "tail_truncations_total", "input=app")
	f(512, "tail_truncated_unread_bytes_total", "input=app")
	f(4096, "tail_nul_bytes_total", "input=app")
	f(0, "tail_nul_bytes_total", "input=nginx")
	f(64, "tail_abandoned_bytes_total", "input=app")
	f(1, "tail_vanished_files_total", "input=app")
	f(3, "records_invalid_utf8_total", "input=app")
	f(2, "records_unparsed_total", "input=app")
	f(0, "records_unparsed_total", "input=nginx")
	f(1, "config_last_reload_successful")
	f(1, "state_disk_healthy")
	f(1, "input_info", "input=orders", "cluster=dr", "database=Sales", "table=Orders", "format=CSV", "mapping=Orders_csv")
	f(1, "input_info", "input=nginx", "cluster=default", "database=Logs", "table=Nginx", "format=TXT", "mapping=")
	f(1, "build_info", "version=0.1.0")
	if got := value(families, "token_expires_seconds"); got < 2400 || got > 2520 {
		t.Errorf("token_expires_seconds = %v, want the one in 42 minutes", got)
	}
	if got := value(families, "spool_oldest_seconds"); got < 3600 {
		t.Errorf("spool_oldest_seconds = %v, want an hour", got)
	}
}

// TestTheExpositionKeepsTheRulesOfPrometheus runs the checks of promtool check metrics
// over what the endpoint answers.
func TestTheExpositionKeepsTheRulesOfPrometheus(t *testing.T) {
	status, l := busy(time.Now())
	s := serverFor(status, l)
	problems, err := promlint.New(get(s, "/metrics").Body).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !strings.HasPrefix(p.Metric, "go_") { // the runtime's own names
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	labels := []string{"input", "database", "table", "outcome", "code", "reason", "state", "version", "goversion"}
	for name, family := range scrape(t, s) {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		if !strings.HasPrefix(name, "kusto_agent_") {
			t.Errorf("%s does not begin with the name of the agent", name)
		}
		allowed := labels
		if name == "kusto_agent_input_info" {
			allowed = []string{"input", "cluster", "database", "table", "format", "mapping"}
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if !slices.Contains(allowed, label.GetName()) {
					t.Errorf("%s has the label %s", name, label.GetName())
				}
			}
		}
	}
}

// TestTheRuntimeKeepsItsUsualNames: dashboards of others know these.
func TestTheRuntimeKeepsItsUsualNames(t *testing.T) {
	families := scrape(t, serverFor(Status{}, ledger.New()))
	for _, name := range []string{
		"go_goroutines", "go_gc_duration_seconds", "go_memstats_heap_inuse_bytes", "go_info",
		"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds", "process_start_time_seconds",
	} {
		if families[name] == nil {
			t.Errorf("%s is missing", name)
		}
		if families["kusto_agent_"+name] != nil {
			t.Errorf("kusto_agent_%s is there besides", name)
		}
	}
}

func TestWhatIsNotThereIsNotShown(t *testing.T) {
	s := serverFor(Status{Config: Loaded{Error: "bad"}, Journal: Journal{Error: "stalled"}}, ledger.New())
	families := scrape(t, s)
	for _, name := range []string{"spool_bytes", "spool_oldest_seconds", "token_expires_seconds", "files"} {
		if families["kusto_agent_"+name] != nil {
			t.Errorf("%s is shown", name)
		}
	}
	for _, name := range []string{"config_last_reload_successful", "state_disk_healthy"} {
		if value(families, name) != 0 {
			t.Errorf("%s is 1", name)
		}
	}
}

func TestTheBooksCloseInEveryScrape(t *testing.T) {
	l := ledger.New()
	s := serverFor(Status{}, l)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for _, input := range []string{"app", "web", "app"} {
		writers.Go(func() { // ends with stop, waited for below
			for {
				select {
				case <-stop:
					return
				default:
				}
				l.Read(input, 9, 900)
				l.Filtered(input, ledger.Header, 1)
				l.Rejected(lot(input, 2), record.TooLong)
				l.Restored(input, 3)
				l.Spooled(input, 5)
				l.Accepted(lot(input, 4))
				l.Unspooled(input, 5)
				l.Quarantined(lot(input, 1), record.Refused)
				l.Dropped(lot(input, 7), ledger.SpoolAge)
			}
		})
	}
	for range 50 {
		m := scrape(t, s)
		for _, input := range []string{"input=app", "input=web"} {
			in := value(m, "records_read_total", input) + value(m, "records_restored_total", input)
			out := value(m, "records_accepted_total", input) + value(m, "records_quarantined_total", input) +
				value(m, "records_dropped_total", input) + value(m, "records_filtered_total", input) +
				value(m, "records_pending", input) + value(m, "records_spooled", input)
			if in != out {
				t.Fatalf("%s: %v came in and %v are accounted for", input, in, out)
			}
		}
	}
	close(stop)
	writers.Wait()
}

func BenchmarkScrape(b *testing.B) {
	status, l := busy(time.Now())
	handler := serverFor(status, l).Handler()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Host = "localhost"
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		io.Copy(io.Discard, w.Body)
	}
}
