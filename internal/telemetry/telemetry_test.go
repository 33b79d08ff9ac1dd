package telemetry

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lot is for the table of an input that busy knows.
func lot(input string, n int) record.Lot {
	to := map[string]record.Route{"app": {Database: "Logs", Table: "App"}, "nginx": {Database: "Logs", Table: "Nginx"}, "orders": {Database: "Sales", Table: "Orders"}}
	return record.Lot{Input: input, Route: to[input], Records: n, Bytes: int64(n) * 100}
}

// quiet drops what is logged.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// busy is the status of an agent with some of everything, as of now, and the
// books that go with it.
func busy(now time.Time) (Status, *ledger.Ledger) {
	l := ledger.New()
	l.Read("app", 8_412_776, 2_791_000_512)
	l.Filtered("app", ledger.Blank, 14)
	l.Rejected(lot("app", 3), record.Malformed)
	l.Accepted(lot("app", 8_401_120))
	l.Read("nginx", 1_250_403, 201_442_118)
	l.Accepted(lot("nginx", 1_250_403))
	l.Read("orders", 48_120, 9_120_000)
	l.Filtered("orders", ledger.Header, 31)
	l.Accepted(lot("orders", 40_002))
	return Status{
		Version: "0.1.0", Started: now.Add(-27*time.Hour - 14*time.Minute), State: Running,
		Inputs: []Input{
			{Name: "app", Cluster: "default", Database: "Logs", Table: "App", Format: "JSON", Mapping: "App_json"},
			{Name: "nginx", Cluster: "default", Database: "Logs", Table: "Nginx", Format: "TXT"},
			{Name: "orders", Cluster: "dr", Database: "Sales", Table: "Orders", Format: "CSV", Mapping: "Orders_csv"},
		},
		Routes: []Route{
			{Cluster: "default", Database: "Logs", Table: "App", Format: "JSON", Mapping: "App_json", State: Up, Queued: 2, InFlight: 3, Accepted: 8_401_120, LastAccepted: now.Add(-time.Second)},
			{Cluster: "default", Database: "Logs", Table: "Nginx", Format: "TXT", State: Up, Accepted: 1_250_403, LastAccepted: now.Add(-4 * time.Second)},
			{Cluster: "dr", Database: "Sales", Table: "Orders", Format: "CSV", Mapping: "Orders_csv", State: Held, Queued: 2, Spooled: 7, Accepted: 40_002, LastAccepted: now.Add(-13 * time.Minute), Hold: &Hold{
				Since: now.Add(-12 * time.Minute), NextTry: now.Add(18 * time.Second), Code: "BadRequest_EntityNotFound",
				Message: "Entity ID 'Orders_csv' of kind 'MappingPersistent' was not found.",
				Fix:     "create the mapping with: kusto-agent setup, or correct mapping: of input orders; after a change streaming nodes may need 5 minutes",
			}},
		},
		Clusters: []Cluster{
			{Name: "default", URL: "https://mycluster.westeurope.kusto.windows.net", State: Up, Concurrency: 8, InFlight: 3, TokenExpires: now.Add(42 * time.Minute)},
			{Name: "dr", URL: "https://dr.northeurope.kusto.windows.net", State: Up, Concurrency: 8, TokenExpires: now.Add(51 * time.Minute)},
		},
		Files: []File{
			{Input: "app", ID: "00000000000a11ce", Path: "/srv/app/worker-1.json", Size: 412_000_000, Read: 412_000_000, Safe: 408_900_112, BehindBytes: 3_099_888, State: "reading"},
			{Input: "app", ID: "00000000000a11cf", Path: "/srv/app/worker-2.json", Size: 98_112, Read: 98_112, Safe: 98_112, State: "idle"},
			{Input: "nginx", ID: "00000000000b0b01", Path: "/var/log/nginx/access.log", Size: 11_200_345, Read: 11_200_345, Safe: 11_200_345, State: "idle"},
			{Input: "nginx", ID: "00000000000b0b00", Path: "/var/log/nginx/access.log.1", Size: 52_428_800, Read: 52_428_800, Safe: 52_428_800, State: "rotated"},
			{Input: "orders", ID: "00000000000c0de0", Generation: 1, Path: "/data/exports/orders 2026-11-20.csv", Size: 14_204_118, Read: 9_120_000, Safe: 7_580_404, BehindBytes: 6_623_714, State: "waiting", Why: "its route is held"},
		},
		Journal: Journal{Bytes: 18_874_368, LastSync: now.Add(-time.Second)},
		Config:  Loaded{File: "/etc/kusto-agent/agent.yaml", Time: now.Add(-27 * time.Hour)},
	}, l
}

// serverFor is a server that shows status and the ledger.
func serverFor(status Status, l *ledger.Ledger) *Server {
	return New(Options{
		Config: Config{Listen: "127.0.0.1:0"}, Ledger: l, Logger: quiet(), Version: "0.1.0",
		Status: func() Status { return status },
	})
}
