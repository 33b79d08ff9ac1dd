package bench

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// farSink is where a far sink listens.
type farSink struct {
	Control string // URL of reset and report, at once
	Plain   string // URL of the ingest call
	TLS     string // the same with TLS
	CA      string // PEM of the certificate of TLS
}

// distance is how far away the ingest call is.
type distance struct {
	delay   atomic.Int64 // ns from the end of a request to its answer
	limiter atomic.Pointer[rate.Limiter]
}

// runFarSink is a process: it prints a farSink as JSON and serves until its
// standard input is closed.
func runFarSink() error {
	var far distance
	s := new(sink)
	control := http.NewServeMux()
	control.HandleFunc("POST /reset", s.reset)
	control.HandleFunc("GET /report", s.report)
	control.HandleFunc("POST /distance", far.set)
	data := http.NewServeMux()
	data.HandleFunc("POST /v1/rest/ingest/{database}/{table}", func(w http.ResponseWriter, r *http.Request) {
		if l := far.limiter.Load(); l != nil {
			r.Body = &slowBody{ReadCloser: r.Body, ctx: r.Context(), limiter: l}
		}
		s.ingest(&lateWriter{ResponseWriter: w, delay: time.Duration(far.delay.Load())}, r)
	})
	cert, ca, err := selfSigned()
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	var listeners [3]net.Listener
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
	}
	at := func(scheme string, i int) string { return scheme + "://" + listeners[i].Addr().String() }
	secure := tls.NewListener(listeners[2], &tls.Config{Certificates: []tls.Certificate{cert}})
	// All end with the process, which nobody outlives.
	go http.Serve(listeners[0], control)
	go http.Serve(listeners[1], data)
	go http.Serve(secure, data)
	if err := json.NewEncoder(os.Stdout).Encode(farSink{at("http", 0), at("http", 1), at("https", 2), ca}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
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

// selfSigned is a certificate for this machine, and what trusts it.
func selfSigned() (cert tls.Certificate, ca string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, "", err
	}
	now := time.Now()
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		return cert, "", err
	}
	var text bytes.Buffer
	err = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, text.String(), err
}

// FarRig is a folder, an agent, and a sink at a distance. Use it from one
// goroutine; Close it.
type FarRig struct {
	Rig
	at farSink
	ca string // file of at.CA
}

// NewFarRig is NewRig with a far sink.
func NewFarRig(dir, agent string) (*FarRig, error) {
	r := &FarRig{Rig: Rig{dir: dir, agent: agent}, ca: filepath.Join(dir, "ca.pem")}
	if agent == "" {
		r.agent = filepath.Join(dir, "kusto-agent")
		if err := build(r.agent); err != nil {
			return nil, err
		}
	}
	out, err := r.startSink("farsink")
	if err != nil {
		return nil, err
	}
	if err := json.NewDecoder(out).Decode(&r.at); err != nil {
		return nil, errors.Join(fmt.Errorf("start the sink: %w", err), r.Close())
	}
	r.url = r.at.Control
	if err := os.WriteFile(r.ca, []byte(r.at.CA), 0o600); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Away is a run of the agent to the far sink.
type Away struct {
	Delay time.Duration // from the end of a request to its answer
	Rate  int           // bytes a second that the sink takes, of all requests together; 0: no bound
	TLS   bool
	Batch string // keys of batch, as YAML
	Send  string // keys of send, as YAML; they end with a comma
}

// Far runs `run --once` with an empty state over the files of an input, each of which
// has a table of its own.
func (r *FarRig) Far(in *Input, a Away) (Result, error) {
	resp, err := http.PostForm(r.at.Control+"/distance", url.Values{"delay": {a.Delay.String()}, "rate": {strconv.Itoa(a.Rate)}})
	if err != nil {
		return Result{}, err
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		return Result{}, fmt.Errorf("set the distance of the sink: status %d", resp.StatusCode)
	}
	state, err := os.MkdirTemp(r.dir, "state-far-")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(state)
	cluster := r.at.Plain
	if a.TLS {
		cluster = r.at.TLS
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "cluster: %s\ndatabase: Bench\nauth: {method: none}\nstate_dir: %q\ntelemetry: {listen: \"\"}\n", cluster, state)
	fmt.Fprintf(&text, "batch: {%s}\nsend: {%s tls: {ca_file: %q}}\ninputs:\n", a.Batch, a.Send, r.ca)
	for i, path := range in.Paths {
		fmt.Fprintf(&text, "  - {paths: [%q], table: Lines%d, mapping: Lines_json}\n", path, i)
	}
	config := filepath.Join(state, "agent.yaml")
	if err := os.WriteFile(config, text.Bytes(), 0o600); err != nil {
		return Result{}, err
	}
	return r.run(exec.Command(r.agent, "run", "--once", "--config", config), in, true)
}
