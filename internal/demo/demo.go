// Package demo shows the whole journey on one machine: records are written and rotated, the
// agent ships them to the emulator, and each row is compared with what was written.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/term"

	"kusto-agent/emulator"
	"kusto-agent/internal/agent"
	"kusto-agent/internal/async"
	"kusto-agent/internal/audit"
	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
)

// demoConfig is the configuration the demo runs on: the same keys, read the
// same way, as anybody's.
const demoConfig = `cluster: %[1]s
database: Demo
state_dir: %[2]s/state
auth:
  method: client_secret
  authority: %[1]s
  tenant: demo
  client_id: demo-agent
  client_secret_file: %[2]s/client-secret
inputs:
  - paths: [%[2]s/logs/orders*.json]
    table: Orders
    mapping: Orders_json
  - paths: ["%[2]s/logs/**/metrics.csv*"]
    format: CSV
    table: Metrics
    header: skip
  - paths: [%[2]s/logs/access.log]
    table: Access
telemetry: {listen: "127.0.0.1:0"}
`

// Demo is one run of the demo.
type Demo struct {
	For  time.Duration // how long the writer writes
	Keep bool          // the endpoint is served afterwards, until the end of the context
	Out  io.Writer

	dir     string
	server  *emulator.Server
	url     string
	writers []*demoWriter
}

// Run runs the demo, and leaves what it wrote in a temporary folder. Its errors have exit
// codes.
func (d *Demo) Run(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp("", "kusto-agent-demo-"); err != nil {
		return exit.With(exit.Failed, err)
	}
	a, logs, err := d.prepare()
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	defer logs.Close()
	defer d.server.Close()
	fmt.Fprintf(d.Out, "endpoint  %s  (strict emulator, with its own token endpoint)\nlogs      %s  (rotated about once a second)\nconfig    %s\nagent log %s\n\n",
		d.url, filepath.Join(d.dir, "logs"), filepath.Join(d.dir, "agent.yaml"), logs.Name())

	running, stopAgent := context.WithCancel(context.Background())
	defer stopAgent()
	var agentErr error
	agentDone := async.Start(func() { agentErr = a.Run(running, nil) })
	began := time.Now()
	d.write(ctx)
	d.awaitRows(ctx)
	took := time.Since(began)
	stopAgent()
	<-agentDone
	if agentErr != nil {
		return exit.With(exit.Failed, agentErr)
	}
	if err := d.report(a, took); err != nil {
		return err
	}
	if err := d.audit(); err != nil {
		return err
	}
	if d.Keep {
		fmt.Fprintf(d.Out, "\nserving %s until Ctrl-C; rows: curl '%s/rows?db=Demo&table=Orders&limit=5'\n", d.url, d.url)
		<-ctx.Done()
	}
	return nil
}

// prepare starts the endpoint and builds an agent from a configuration file.
func (d *Demo) prepare() (*agent.Agent, *os.File, error) {
	secret := uuid.NewString()
	d.server = emulator.New(emulator.Options{TokenSecret: secret})
	url, err := d.server.Listen("127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	d.url = url
	path := filepath.Join(d.dir, "agent.yaml")
	files := map[string]string{
		path:                                  fmt.Sprintf(demoConfig, url, d.dir),
		filepath.Join(d.dir, "client-secret"): secret + "\n",
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return nil, nil, err
		}
	}
	if d.writers, err = newDemoWriters(filepath.Join(d.dir, "logs")); err != nil {
		return nil, nil, err
	}
	cfg, err := config.Load(path, os.LookupEnv, config.Options{})
	if err != nil {
		return nil, nil, err
	}
	logs, err := os.Create(filepath.Join(d.dir, "agent.log"))
	if err != nil {
		return nil, nil, err
	}
	a, err := agent.New(agent.Options{Config: cfg, Log: telemetry.NewLogger(cfg.Telemetry.Log, logs)})
	return a, logs, err
}

// write runs the writers for the length of the demo, with a line of progress.
func (d *Demo) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.For)
	defer cancel()
	began := time.Now()
	var running []<-chan struct{}
	for _, w := range d.writers {
		running = append(running, async.Start(func() { w.run(ctx) }))
	}
	line := newProgress(d.Out)
	tick := time.NewTicker(line.every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			d.show(line, began)
		case <-ctx.Done():
		}
	}
	for _, done := range running {
		<-done
	}
	d.show(line, began)
	line.end()
}

func (d *Demo) show(line *progress, began time.Time) {
	written, bytes, rotations := 0, int64(0), 0
	stored := 0
	for _, w := range d.writers {
		written += int(w.rows.Load())
		bytes += w.bytes.Load()
		rotations += int(w.rotations.Load())
		stored += d.server.RowCount("Demo", w.table)
	}
	s := time.Since(began).Seconds()
	line.show("%5.1fs  written %9d rows %7.1f MB in %d files  stored %9d rows  %5.1f MB/s",
		s, written, float64(bytes)/1e6, rotations+len(d.writers), stored, float64(bytes)/1e6/s)
}

// awaitRows waits until every row written is stored, for a while; also after a
// Ctrl-C, which only ends the writing.
func (d *Demo) awaitRows(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	for _, w := range d.writers {
		if err := d.server.WaitRows(ctx, "Demo", w.table, int(w.rows.Load())); err != nil {
			return // the report says what is missing
		}
	}
}

// report compares what was written with what is stored, row by row, and leaves
// the stored rows where they can be looked at.
func (d *Demo) report(a *agent.Agent, took time.Duration) error {
	fmt.Fprintf(d.Out, "\n%-10s %12s %12s %12s %12s\n", "table", "written", "stored", "missing", "duplicates")
	rowsDir := filepath.Join(d.dir, "rows")
	if err := os.Mkdir(rowsDir, 0o700); err != nil {
		return exit.With(exit.Failed, err)
	}
	var bytes int64
	equal := true
	for _, w := range d.writers {
		c, err := d.compare(w, rowsDir)
		if err != nil {
			return exit.With(exit.Failed, err)
		}
		fmt.Fprintf(d.Out, "%-10s %12d %12d %12d %12d\n", w.table, w.rows.Load(), c.stored, c.missing, c.double)
		equal = equal && c.stored == int(w.rows.Load()) && c.missing == 0 && c.double == 0
		bytes += w.bytes.Load()
	}
	for input, b := range a.Books() {
		if err := b.Check(); err != nil {
			return exit.With(exit.Failed, fmt.Errorf("the books of %s do not close: %w", input, err))
		}
	}
	n := d.server.Totals()
	fmt.Fprintf(d.Out, "\n%.1f MB in %.1fs (%.1f MB/s), %d requests, %d tokens; dropped by the endpoint: %d lines\n",
		float64(bytes)/1e6, took.Seconds(), float64(bytes)/1e6/took.Seconds(), n.Requests, d.server.TokenCalls(), n.DroppedLines)
	fmt.Fprintf(d.Out, "rows are in %s, one JSON line each\n", rowsDir)
	if !equal || n.DroppedLines > 0 {
		return exit.With(exit.Failed, errors.New("what is stored is not what was written"))
	}
	fmt.Fprintln(d.Out, "written = stored in every table")
	return nil
}

// audit asks the agent's own state what became of what was written, and says what it
// answers.
func (d *Demo) audit() error {
	state := filepath.Join(d.dir, "state")
	r, err := audit.Read(audit.Options{State: state, Spool: filepath.Join(state, "spool")})
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	written := int64(0)
	for _, w := range d.writers {
		written += w.rows.Load()
	}
	s := r.Sum()
	fmt.Fprintf(d.Out, "\naudit     %s\n          of %d files, in %d batches; file by file: kusto-agent audit --state-dir %s\n",
		r.Headline(), s.Files, s.Accepted.Batches, state)
	if !r.OK || r.Whole && s.Accepted.Records != written { // of a long demo the journal keeps the end
		return exit.With(exit.Failed, fmt.Errorf("the audit knows of %d records, %d were written", s.Accepted.Records, written))
	}
	return nil
}

// progress is one line that is written again and again on a terminal, and now
// and then elsewhere.
type progress struct {
	out      io.Writer
	every    time.Duration
	terminal bool
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, every: time.Second}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.terminal, p.every = true, 100*time.Millisecond
	}
	return p
}

func (p *progress) show(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K", text)
		return
	}
	fmt.Fprintln(p.out, text)
}

func (p *progress) end() {
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}
