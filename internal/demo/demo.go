// Package demo shows the whole journey on one machine: records are written and rotated, the
// agent ships them to the emulator through an outage, and each row is compared with what was
// written.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

// demoConfig is the configuration the demo runs on: the same keys, read the
// same way, as anybody's. It gives up on the service sooner, so that the spool is seen
// at work.
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
send: {retry: {initial: 100ms, max: 500ms, patience: 500ms}}
telemetry: {listen: "127.0.0.1:0"}
`

// Demo is one run of the demo.
type Demo struct {
	For  time.Duration // how long the writer writes
	Keep bool          // agent and endpoint go on afterwards, until the end of the context
	Out  io.Writer

	dir     string
	server  *emulator.Server
	agent   *agent.Agent
	url     string // of the endpoint
	page    string // of the agent
	writers []*demoWriter
	began   time.Time
	outage  struct {
		took    time.Duration
		written int64  // rows, in that time
		spooled uint64 // most records in the spool
	}
}

// Run runs the demo and then removes its folder. If it fails, for example because what is stored is
// not what was written, the folder stays, and the error names it. The error has an exit code.
func (d *Demo) Run(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp("", "kusto-agent-demo-"); err != nil {
		return exit.With(exit.Failed, err)
	}
	defer func() {
		if err != nil {
			err = exit.With(exit.Failed, fmt.Errorf("%w; logs, log of the agent and state are in %s", err, d.dir))
			return
		}
		_ = os.RemoveAll(d.dir) // it is in the temporary folder
	}()
	logs, err := d.prepare()
	if err != nil {
		return err
	}
	defer logs.Close()
	defer d.server.Close()
	fmt.Fprintf(d.Out, "status page  %s\nendpoint     %s/ (an emulator of the service, with its rows)\nfolder       %s (logs, configuration, log of the agent; removed at the end)\n\n", d.page, d.url, d.dir)

	running, stopAgent := context.WithCancel(context.Background())
	defer stopAgent()
	var agentErr error
	agentDone := async.Start(func() { agentErr = d.agent.Run(running, nil) })
	d.write(ctx)
	d.awaitRows(ctx)
	err = d.report()
	if err == nil && d.Keep {
		fmt.Fprintf(d.Out, "\nagent and endpoint run until Ctrl-C; look at both pages, or: kusto-agent status --state-dir %s\n", filepath.Join(d.dir, "state"))
		<-ctx.Done()
	}
	stopAgent()
	<-agentDone
	if err = cmp.Or(err, agentErr); err != nil {
		return err
	}
	if err := d.audit(); err != nil {
		return err
	}
	fmt.Fprint(d.Out, "\nwritten = stored in every table\n\nnext: kusto-agent init       writes a configuration for logs of this machine\n      kusto-agent emulator   serves such an endpoint to try it against\n")
	return nil
}

// prepare starts the emulator, makes the writers, and builds an agent from a configuration file, whose
// status page listens already. It returns the agent's log file, which the caller closes.
func (d *Demo) prepare() (*os.File, error) {
	secret := uuid.NewString()
	d.server = emulator.New(emulator.Options{TokenSecret: secret})
	url, err := d.server.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.url = url
	path := filepath.Join(d.dir, "agent.yaml")
	err = errors.Join(os.WriteFile(path, fmt.Appendf(nil, demoConfig, url, d.dir), 0o600),
		os.WriteFile(filepath.Join(d.dir, "client-secret"), []byte(secret+"\n"), 0o600))
	if err != nil {
		return nil, err
	}
	if d.writers, err = newDemoWriters(filepath.Join(d.dir, "logs")); err != nil {
		return nil, err
	}
	cfg, err := config.Load(path, os.LookupEnv, config.Options{})
	if err != nil {
		return nil, err
	}
	logs, err := os.Create(filepath.Join(d.dir, "agent.log"))
	if err != nil {
		return nil, err
	}
	d.agent, err = agent.New(agent.Options{Config: cfg, Log: telemetry.NewLogger(cfg.Telemetry.Log, logs)})
	if err != nil {
		return nil, errors.Join(err, logs.Close())
	}
	addr, err := d.agent.Listen()
	if err != nil {
		return nil, errors.Join(err, logs.Close())
	}
	d.page = "http://" + addr.String() + "/"
	return logs, nil
}

// write runs the writers for the length of the demo, with a line of progress, and returns when they
// have stopped. In the middle, for four tenths of the time and until records are in the spool, the
// service answers nothing but errors.
func (d *Demo) write(ctx context.Context) {
	writing, stop := context.WithCancel(ctx)
	d.began = time.Now()
	// One order is refused for its content, so that it ends in quarantine.
	d.server.Fail(emulator.Fault{
		Match: emulator.Match{Table: "Orders", Contains: refusedNote}, When: emulator.BeforeCommit,
		Status: http.StatusBadRequest, Code: "BadRequest_InvalidJson", Message: "the service refuses this order",
	})
	var running []<-chan struct{}
	for _, w := range d.writers {
		running = append(running, async.Start(func() { w.run(writing) }))
	}
	line := newProgress(d.Out)
	d.pass(ctx, line, d.For*3/10, nil)

	down := d.server.Fail(emulator.Fault{When: emulator.OnArrival, Status: http.StatusServiceUnavailable})
	line.note("%5.1fs  the service fails: it answers 503 to every request", time.Since(d.began).Seconds())
	from, before := time.Now(), d.tally().rows
	d.pass(ctx, line, d.For*4/10, func() bool { return d.outage.spooled > 0 })
	down.Remove()
	d.outage.took, d.outage.written = time.Since(from), d.tally().rows-before
	line.note("%5.1fs  the service is back", time.Since(d.began).Seconds())

	d.pass(ctx, line, d.For*3/10, nil)
	stop()
	for _, done := range running {
		<-done
	}
	d.show(line)
	line.end()
}

// pass waits for the time least and, after that, until the condition until holds (nil: no condition),
// but at most a minute longer. It returns earlier when ctx ends. Meanwhile it shows progress and keeps
// the greatest number of records in the spool in d.outage.spooled.
func (d *Demo) pass(ctx context.Context, line *progress, least time.Duration, until func() bool) {
	const most = time.Minute
	began := time.Now()
	tick := time.NewTicker(line.every)
	defer tick.Stop()
	enough := time.NewTicker(20 * time.Millisecond)
	defer enough.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.show(line)
		case <-enough.C:
		}
		d.outage.spooled = max(d.outage.spooled, d.spooled())
		if past := time.Since(began); past >= least && (until == nil || until() || past > least+most) {
			return
		}
	}
}

// tally is what the writers have written so far, all together.
type tally struct{ rows, bytes, rotations, refused int64 }

func (d *Demo) tally() (t tally) {
	for _, w := range d.writers {
		t.rows += w.rows.Load()
		t.bytes += w.bytes.Load()
		t.rotations += w.rotations.Load()
		t.refused += w.refused.Load()
	}
	return t
}

// spooled counts the records in the spool.
func (d *Demo) spooled() (records uint64) {
	for _, b := range d.agent.Books() {
		records += b.Spooled
	}
	return records
}

// show shows in the line of progress how much is written, stored, and in the spool.
func (d *Demo) show(line *progress) {
	written, stored := d.tally(), 0
	for _, w := range d.writers {
		stored += d.server.RowCount("Demo", w.table)
	}
	line.show("%5.1fs  written %9d rows %7.1f MB   stored %9d   in the spool %9d",
		time.Since(d.began).Seconds(), written.rows, float64(written.bytes)/1e6, stored, d.spooled())
}

// awaitRows waits until every row written is stored and the agent knows it, at most a minute. It does
// so also after the end of ctx (Ctrl-C), which only ends the writing.
func (d *Demo) awaitRows(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, w := range d.writers {
		if err := d.server.WaitRows(ctx, "Demo", w.table, int(w.rows.Load())); err != nil {
			return // the report says what is missing
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil { // the agent gets the answer to a request after its rows are stored
		pending := uint64(0)
		for _, b := range d.agent.Books() {
			pending += b.Pending + b.Spooled
		}
		if pending == 0 {
			return
		}
		<-tick.C
	}
}

// report compares what was written with what is stored, row by row, and prints the result. It returns
// an error if a row is missing or stored twice, if the agent's counts of the records of an input do
// not add up, or if the quarantine does not have exactly the refused order.
func (d *Demo) report() error {
	fmt.Fprintf(d.Out, "\n%-10s %12s %12s %12s %12s\n", "table", "written", "stored", "missing", "duplicates")
	written, equal := d.tally(), true
	for _, w := range d.writers {
		c, err := d.compare(w)
		if err != nil {
			return err
		}
		fmt.Fprintf(d.Out, "%-10s %12d %12d %12d %12d\n", w.table, w.rows.Load(), c.stored, c.missing, c.double)
		equal = equal && c.stored == int(w.rows.Load()) && c.missing == 0 && c.double == 0
	}
	for input, b := range d.agent.Books() {
		if err := b.Check(); err != nil {
			return fmt.Errorf("the books of %s do not close: %w", input, err) // the counts do not add up
		}
	}
	n := d.server.Totals()
	fmt.Fprintf(d.Out, "\n%.1f MB were written at the pace of the demo into %s, %d of them rotated away\n", float64(written.bytes)/1e6, units.Counted(int(written.rotations)+len(d.writers), "file"), written.rotations)
	fmt.Fprintf(d.Out, "outage      %.1f s, in which %s were written; up to %d records were in the spool\n", d.outage.took.Seconds(), units.Counted(d.outage.written, "row"), d.outage.spooled)
	refused := int64(0)
	err := quarantine.List(filepath.Join(d.dir, "state", "quarantine"), func(e quarantine.Entry) error {
		refused++
		fmt.Fprintf(d.Out, "refused     1 order: %q (%s). It is in quarantine, as byte %d of %s; its neighbours are stored\n", e.Message, e.Code, e.Offset, filepath.Base(e.Path))
		return nil
	})
	switch {
	case err != nil:
		return err
	case !equal || n.DroppedLines > 0 || refused != written.refused:
		return fmt.Errorf("what is stored is not what was written; lines dropped by the endpoint: %d, records in quarantine: %d", n.DroppedLines, refused)
	}
	return nil
}

// audit reads the state that the agent has left and prints how many records it says were accepted. It
// returns an error if the audit finds a fault, or another number than were written. The agent must
// have stopped.
func (d *Demo) audit() error {
	state := filepath.Join(d.dir, "state")
	r, err := audit.Read(audit.Options{State: state, Spool: filepath.Join(state, "spool")})
	if err != nil {
		return err
	}
	s := r.Sum()
	fmt.Fprintf(d.Out, "audit       %s\n            of %s, in %s\n", r.Headline(), units.Counted(s.Files, "file"), units.Counted(s.Accepted.Batches, "batch"))
	if !r.OK || r.Whole && s.Accepted.Records != d.tally().rows { // in a long demo, the journal has only the end (not Whole)
		return fmt.Errorf("the audit knows of %s, %d were written", units.Counted(s.Accepted.Records, "record"), d.tally().rows)
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

// newProgress returns a line that is redrawn on a terminal ten times a second, and otherwise printed
// once a second. The caller shows it that often; see every.
func newProgress(out io.Writer) *progress {
	p := &progress{out: out, every: time.Second}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.terminal, p.every = true, 100*time.Millisecond
	}
	return p
}

// show redraws the line of progress on a terminal; elsewhere it prints the text as a line of its own.
func (p *progress) show(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K", text)
		return
	}
	fmt.Fprintln(p.out, text)
}

// note prints a line that stays: on a terminal, later progress is shown below it.
func (p *progress) note(format string, args ...any) {
	p.show(format, args...)
	p.end()
}

func (p *progress) end() {
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}
