package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Rig is a folder, a sink and an agent to measure with. Use it from one
// goroutine; Close it.
type Rig struct {
	dir    string
	agent  string // path of the binary
	sink   *exec.Cmd
	hangUp func() error // ends the sink
	at     address
	url    string // that limit and agent post to
}

// build builds the agent with the versions of its own module.
func build(path string) error {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "kusto-agent").Output()
	if err != nil {
		return fmt.Errorf("find the agent's module, from the folder of bench: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", path, "./cmd/agent")
	cmd.Dir = strings.TrimSpace(string(root))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	return nil
}

// NewRig builds the agent, unless a binary is given, and starts the sink.
// Inputs and state are kept below dir.
func NewRig(dir, agent string) (*Rig, error) {
	r := &Rig{dir: dir, agent: agent}
	if agent == "" {
		r.agent = filepath.Join(dir, "kusto-agent")
		if err := build(r.agent); err != nil {
			return nil, err
		}
	}
	out, err := r.startSink()
	if err != nil {
		return nil, err
	}
	if err := json.NewDecoder(out).Decode(&r.at); err != nil {
		return nil, errors.Join(fmt.Errorf("start the sink: %w", err), r.Close())
	}
	if err := os.WriteFile(r.authority(), []byte(r.at.CA), 0o600); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.url = r.at.Plain
	return r, nil
}

// authority is the file of the certificate of the sink.
func (r *Rig) authority() string { return filepath.Join(r.dir, "ca.pem") }

// startSink starts a sink and returns what it prints.
func (r *Rig) startSink() (io.Reader, error) {
	cmd, err := self("sink")
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the sink: %w", err)
	}
	r.sink, r.hangUp = cmd, in.Close
	return out, nil
}

// With is the same rig with another binary of the agent: both take turns at one sink.
// Close only the first.
func (r *Rig) With(agent string) *Rig {
	other := *r
	other.agent = agent
	return &other
}

// Secure is the same rig with limit and agent that post over TLS. Close only the first.
func (r *Rig) Secure() *Rig {
	other := *r
	other.url = r.at.TLS
	return &other
}

// Close ends the sink.
func (r *Rig) Close() error {
	return errors.Join(r.hangUp(), r.sink.Wait())
}

// Result is one run over an input.
type Result struct {
	Wall  time.Duration // from exec to the last arrival; to the end where nothing is posted
	CPU   time.Duration // of all threads
	Peak  int64         // bytes of resident memory
	Bytes int64         // of input
	Sink  Report
}

// MBps is input megabytes (1e6) a second.
func (r Result) MBps() float64 { return float64(r.Bytes) / 1e6 / r.Wall.Seconds() }

// CPUPerGB is CPU seconds for a gigabyte (1e9) of input.
func (r Result) CPUPerGB() float64 { return r.CPU.Seconds() / (float64(r.Bytes) / 1e9) }

// PeakMB is the most resident memory in megabytes (1e6).
func (r Result) PeakMB() float64 { return float64(r.Peak) / 1e6 }

// Limit runs the plain limit: gzip level 1 by so many workers, posted to the
// sink or dropped.
func (r *Rig) Limit(in *Input, workers int, toSink bool) (Result, error) {
	url := ""
	if toSink {
		url = r.url
	}
	cmd, err := self(fmt.Sprintf("limit %d %s", workers, url), in.Paths...)
	if err != nil {
		return Result{}, err
	}
	return r.run(cmd, in, toSink)
}

// Agent runs `run --once` with an empty state and keys of the input.
func (r *Rig) Agent(in *Input, keys ...string) (Result, error) {
	cmd, state, err := r.agentCommand(in.Routes, keys, "", "--once")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(state)
	return r.run(cmd, in, true)
}

// agentCommand writes a configuration for the files of patterns, each an input with a
// table of its own and the same keys, and lines for all. What is not in it has its
// default.
func (r *Rig) agentCommand(patterns, keys []string, lines string, flags ...string) (cmd *exec.Cmd, state string, err error) {
	if state, err = os.MkdirTemp(r.dir, "state-"); err != nil {
		return nil, "", err
	}
	text := fmt.Sprintf(`cluster: %s
database: Bench
auth: {method: none}
state_dir: %q
telemetry: {listen: ""}
%s
inputs:
`, r.url, state, lines)
	for i, pattern := range patterns {
		text += fmt.Sprintf(`  - paths: [%q]
    name: lines%d
    table: Lines%d
    mapping: Lines_json
    %s
`, pattern, i, i, strings.Join(keys, "\n    "))
	}
	config := filepath.Join(state, "agent.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	return exec.Command(r.agent, append([]string{"run", "--config", config}, flags...)...), state, nil
}

// follow runs the agent, with these keys of its input and lines of its configuration, over the files
// of a pattern, until feed returns, which tells what was written to them. It returns the process,
// which has ended, and what the sink holds, which is exactly that.
func (r *Rig) follow(pattern string, keys []string, lines string, feed func(*process) (Share, error)) (*process, Report, error) {
	cmd, state, err := r.agentCommand([]string{pattern}, keys, lines)
	if err != nil {
		return nil, Report{}, err
	}
	defer os.RemoveAll(state)
	if err := r.reset(); err != nil {
		return nil, Report{}, err
	}
	p, err := begin(cmd)
	if err != nil {
		return nil, Report{}, err
	}
	sent, err := feed(p)
	if err := errors.Join(err, p.stop()); err != nil {
		return nil, Report{}, err
	}
	rep, err := r.report()
	return p, rep, cmp.Or(err, sent.verify(rep))
}

// run measures one process from its start to its end.
func (r *Rig) run(cmd *exec.Cmd, in *Input, posted bool) (Result, error) {
	if err := r.reset(); err != nil {
		return Result{}, err
	}
	// Limit and agent trust the sink alone, and read no other certificates.
	cmd.Env = append(cmd.Environ(), "SSL_CERT_FILE="+r.authority(), "SSL_CERT_DIR="+filepath.Join(r.dir, "none"))
	p, err := begin(cmd)
	if err != nil {
		return Result{}, err
	}
	if err := p.wait(); err != nil {
		return Result{}, err
	}
	res := Result{Wall: p.took, CPU: p.cpu(), Peak: p.peak.Load(), Bytes: in.Bytes}
	if !posted {
		return res, nil
	}
	if res.Sink, err = r.report(); err != nil {
		return Result{}, err
	}
	res.Wall = res.Sink.Last.Sub(p.began)
	return res, in.Sent.verify(res.Sink)
}

// verify refuses a run that lost or doubled anything of what was to be sent.
func (s Share) verify(got Report) error {
	if got.Records != s.Records || got.Duplicates != 0 || s.Bytes > 0 && got.Raw != s.Bytes {
		return fmt.Errorf("sink holds %d records, %d twice, in %d bytes; to be sent were %d in %d", got.Records, got.Duplicates, got.Raw, s.Records, s.Bytes)
	}
	return nil
}

func (r *Rig) reset() error { return r.ask("/reset", nil, nil) }

// report is what the sink holds; counting it takes a while.
func (r *Rig) report() (rep Report, err error) {
	err = r.ask("/report", nil, &rep)
	return rep, err
}

// await returns when so many bytes have arrived at the sink, or p has ended.
func (r *Rig) await(p *process, bytes int64) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var have int64
		if err := r.ask("/arrived", nil, &have); err != nil || have >= bytes {
			return err
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return fmt.Errorf("agent ended when %d of %d bytes had arrived", have, bytes)
		}
	}
}

// ask makes a request with a form to the sink, and decodes the answer into into; nil: there is none.
func (r *Rig) ask(path string, form url.Values, into any) error {
	resp, err := http.PostForm(r.at.Plain+path, form)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("ask the sink for %s: status %d", path, resp.StatusCode)
	case into == nil:
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
