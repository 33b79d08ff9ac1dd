package sender

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

type instant struct{}

func (instant) Ingest(context.Context, *kusto.Ingest) kusto.Answer {
	return kusto.Answer{Verdict: kusto.Accepted, Status: 200}
}

type noJournal struct{}

func (noJournal) Begin(*record.Payload) error                    { return nil }
func (noJournal) End(record.BatchID, record.Outcome) error       { return nil }
func (noJournal) Split(record.BatchID, []*record.Payload) error  { return nil }
func (noJournal) Unknown(record.BatchID, int) error              { return nil }
func (noJournal) Replay(record.BatchID, int) error               { return nil }
func (noJournal) Answered(record.BatchID, int) error             { return nil }
func (noJournal) EndReplay(record.BatchID, record.Outcome) error { return nil }

type noQuarantine struct{}

func (noQuarantine) Put([]record.Rejected) error { return nil }

// quietSender is one whose service answers at once and that nobody listens to.
func quietSender() *Sender {
	sp, _, err := spool.Open("/state/spool", roomy, spool.Options{FS: faultfs.New("/state"), Free: plenty})
	if err != nil {
		panic(err)
	}
	return New(Options{
		Config: Config{Concurrency: 8, Retry: Retry{
			Initial: units.Duration(500 * time.Millisecond), Max: units.Duration(30 * time.Second), Patience: units.Duration(10 * time.Second)}},
		Clusters: []Cluster{{Name: "default", URL: here, Ingester: instant{}}},
		Batches:  noJournal{}, Replays: noJournal{}, Quarantine: noQuarantine{}, Divider: halves{&released}, Memory: halves{&released}, Books: deaf{}, Metrics: deaf{},
		Spill: sp, Backlog: sp, Stock: sp, Durable: func(*record.Payload) bool { return false },
		Wake: func(record.Route) {}, Logger: slog.New(slog.DiscardHandler),
	})
}

// The cost of a payload does not grow with the number of routes.
func BenchmarkRoutes(b *testing.B) {
	for _, n := range []int{10, 200, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := quietSender()
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan struct{})
			go func() { s.Run(ctx); close(done) }() // ended and awaited below
			payloads := make([]*record.Payload, n)
			for i := range payloads {
				payloads[i] = payload(fmt.Sprint("T", i), "a")
			}
			b.ResetTimer()
			before := cpu()
			for i := range b.N {
				for s.left() > 256 {
					time.Sleep(20 * time.Microsecond)
				}
				p := *payloads[i%n]
				s.Put(&p)
			}
			for s.left() > 0 {
				time.Sleep(20 * time.Microsecond)
			}
			b.StopTimer()
			b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
			cancel()
			<-done
		})
	}
}

// cpu is the processor time of this process, which a loaded machine does not
// stretch as it does the time that passes.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
