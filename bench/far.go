package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// distance is how far away the ingest call is.
type distance struct {
	delay   atomic.Int64 // ns from the end of a request to its answer
	limiter atomic.Pointer[rate.Limiter]
}

// away serves the ingest call from so far away.
func (d *distance) away(ingest http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if l := d.limiter.Load(); l != nil {
			r.Body = &slowBody{ReadCloser: r.Body, ctx: r.Context(), limiter: l}
		}
		if delay := time.Duration(d.delay.Load()); delay > 0 {
			w = &lateWriter{ResponseWriter: w, delay: delay}
		}
		ingest(w, r)
	}
}

// set takes delay, a duration, and rate, in bytes a second; 0: no bound.
func (d *distance) set(w http.ResponseWriter, r *http.Request) {
	delay, err := time.ParseDuration(r.FormValue("delay"))
	bytes, err2 := strconv.Atoi(r.FormValue("rate"))
	if err := errors.Join(err, err2); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.delay.Store(int64(delay))
	d.limiter.Store(nil)
	if bytes > 0 {
		d.limiter.Store(rate.NewLimiter(rate.Limit(bytes), slowPiece))
	}
}

// lateWriter answers after a delay.
type lateWriter struct {
	http.ResponseWriter
	delay time.Duration
}

func (w *lateWriter) Write(p []byte) (int, error) {
	time.Sleep(w.delay)
	w.delay = 0
	return w.ResponseWriter.Write(p)
}

// slowPiece is how many bytes of a slow body come at a time.
const slowPiece = 64 << 10

// slowBody shares a limiter with all others.
type slowBody struct {
	io.ReadCloser
	ctx     context.Context
	limiter *rate.Limiter
}

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), slowPiece)])
	if wait := b.limiter.WaitN(b.ctx, n); wait != nil {
		return n, wait
	}
	return n, err
}

// Away is a run of the agent to the far sink.
type Away struct {
	Delay time.Duration // from the end of a request to its answer
	Rate  int           // bytes a second that the sink takes, of all requests together; 0: no bound
	TLS   bool
	Batch string // keys of batch, as YAML
	Send  string // keys of send, as YAML
}

// Far runs `run --once` with an empty state over the files of an input, each of which
// has a table of its own, to a sink that is away. The sink is near again afterwards.
func (r *Rig) Far(in *Input, a Away) (Result, error) {
	if err := r.setDistance(a.Delay, a.Rate); err != nil {
		return Result{}, err
	}
	defer r.setDistance(0, 0)
	far := *r
	if a.TLS {
		far = *r.Secure()
	}
	cmd, state, err := far.agentCommand(in.Paths, nil, fmt.Sprintf("batch: {%s}\nsend: {%s}", a.Batch, a.Send), "--once")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(state)
	return far.run(cmd, in, true)
}

func (r *Rig) setDistance(delay time.Duration, rate int) error {
	return r.ask("/distance", url.Values{"delay": {delay.String()}, "rate": {strconv.Itoa(rate)}}, nil)
}
