package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ControlOptions are what a Control answers with. All are needed but Do.
type ControlOptions struct {
	Dir    string                                               // state_dir, in which the socket is made
	Status http.HandlerFunc                                     // writes the status document: Server.ServeStatus
	Files  func(ctx context.Context, all bool) ([]File, error)  // in any order
	Inputs func() []TapInput                                    // those that can be tapped
	Tap    func(inputs []string) (tap Tap, most int, err error) // ErrTaps: there are most already
	Do     map[string]Doing                                     // what is changed, by its name; may be nil
	Logger *slog.Logger
}

// TapInput is an input that can be tapped.
type TapInput struct {
	Name   string
	Blocks bool // what is handed over is blocks of Avro, whose records nobody sees
}

// ErrTaps says that there are as many taps as there may be.
var ErrTaps = errors.New("too many taps are open")

// FileList is the answer to /v1/files.
type FileList struct {
	Time  time.Time `json:"time"`
	Files []File    `json:"files"`
}

// Control answers on a socket in the state folder that only the user of the
// agent, and root, can open: it shows what Server must not, the records.
// GET /v1/files lists every file, GET /v1/tap?input=NAME streams records, and GET
// /v1/status is the status document for those who do not know where Server listens. POST
// /v1/do/NAME changes something that the agent keeps.
type Control struct {
	o       ControlOptions
	looking chan struct{} // holds one while a list is made
	doing   chan struct{} // holds one while something is changed
	retry   time.Duration // controlRetry, but in tests
	tried   chan struct{} // closed when the socket was made, or cannot be for now
}

// NewControl returns a control that does not listen yet.
func NewControl(o ControlOptions) *Control {
	return &Control{o: o, looking: make(chan struct{}, 1), doing: make(chan struct{}, 1), retry: controlRetry, tried: make(chan struct{})}
}

// Handler returns the handler of all paths of the control socket.
func (c *Control) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/files", c.serveFiles)
	mux.HandleFunc("GET /v1/tap", c.serveTap)
	mux.HandleFunc("GET /v1/status", c.o.Status)
	mux.HandleFunc("POST /v1/do/{what...}", c.serveDo)
	return mux
}

// refuse answers a request with an error of one line.
func refuse(w http.ResponseWriter, code int, format string, args ...any) {
	http.Error(w, fmt.Sprintf(format, args...), code)
}

// serveFiles answers GET /v1/files with the list of files, of the inputs in the query or of all.
// One request is served at a time, since each scans all folders. Entries without an input stay in
// the list.
func (c *Control) serveFiles(w http.ResponseWriter, r *http.Request) {
	select {
	case c.looking <- struct{}{}:
		defer func() { <-c.looking }()
	case <-r.Context().Done():
		return
	}
	all, _ := strconv.ParseBool(r.URL.Query().Get("all"))
	files, err := c.o.Files(r.Context(), all)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "%v", err)
		return
	}
	if inputs := r.URL.Query()["input"]; len(inputs) > 0 {
		if !c.checkInputs(w, inputs) {
			return
		}
		files = slices.DeleteFunc(files, func(f File) bool { return f.Input != "" && !slices.Contains(inputs, f.Input) })
	}
	SortFiles(files)
	c.answer(w, FileList{Time: time.Now(), Files: orEmpty(files)}, nil)
}

// checkInputs returns true if all inputs exist. Otherwise it answers the request with 404 and
// returns false.
func (c *Control) checkInputs(w http.ResponseWriter, inputs []string) bool {
	var names []string
	for _, in := range c.o.Inputs() {
		names = append(names, in.Name)
	}
	for _, name := range inputs {
		if !slices.Contains(names, name) {
			refuse(w, http.StatusNotFound, "there is no input %q; the agent has %s", name, strings.Join(names, ", "))
			return false
		}
	}
	return true
}

// serveTap streams records of the inputs that the request names, as JSON lines, until the client
// disconnects or the tap ends. The first line names the inputs of which it streams whole Avro
// blocks. An unknown input, no input, and too many taps at a time are answered with an error.
func (c *Control) serveTap(w http.ResponseWriter, r *http.Request) {
	names := r.URL.Query()["input"]
	if len(names) == 0 {
		refuse(w, http.StatusBadRequest, "say which input: /v1/tap?input=NAME")
		return
	}
	if !c.checkInputs(w, names) {
		return
	}
	tap, most, err := c.o.Tap(names)
	if err != nil {
		if errors.Is(err, ErrTaps) {
			err = fmt.Errorf("%w: %d at a time; end one of them", err, most)
		}
		refuse(w, http.StatusServiceUnavailable, "%v", err)
		return
	}
	defer tap.Close()
	var note TapNote
	for _, in := range c.o.Inputs() {
		if in.Blocks && slices.Contains(names, in.Name) {
			note.Blocks = append(note.Blocks, in.Name)
		}
	}
	s := newTapStream(w, r)
	defer s.end()
	w.Header().Set("Content-Type", "application/x-ndjson")
	if err := s.note(note); err != nil {
		return
	}
	for err == nil {
		if err = tap.Next(r.Context(), s.record); err == nil || errors.Is(err, io.EOF) { // io.EOF: no more records
			err = errors.Join(err, s.tell(tap.Dropped(), err != nil))
		}
	}
}

// answer writes v as JSON with status 200. If err is not nil, it writes the text of err with status
// 500 instead.
func (c *Control) answer(w http.ResponseWriter, v any, err error) {
	var body []byte
	if err == nil {
		body, err = json.Marshal(v)
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "%v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(append(EscapeJSON(body), '\n')); err != nil {
		c.o.Logger.Debug("client of the control socket disconnected", "err", err)
	}
}

// serve answers requests on a listener until ctx ends, and gives those in progress lastAnswers to
// end. It returns an error if the listener fails before that.
func (c *Control) serve(ctx context.Context, ln net.Listener) error {
	// Requests in progress are not cancelled by ctx; a tap learns from stoppingKey that it has to end.
	base := context.WithValue(context.WithoutCancel(ctx), stoppingKey{}, ctx)
	server := &http.Server{
		Handler:           c.Handler(),
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(c.o.Logger.Handler(), slog.LevelDebug),
	}
	return serveUntil(ctx, server, func() error { return server.Serve(ln) }, func(err error) {
		c.o.Logger.Debug("responses of the control socket were cut off at shutdown", "err", err)
	})
}

// serveUntil calls serve, which runs server, and stops the server when ctx ends. Answers in
// progress get lastAnswers to end; if that is too short, they are cut off and cut is called with
// the error. The result is nil after a stop; if serve returns before ctx ends, it is the error of
// serve.
func serveUntil(ctx context.Context, server *http.Server, serve func() error, cut func(error)) error {
	served := make(chan error, 1)
	// Started here, ended by Shutdown or Close below, waited for here.
	go func() { served <- serve() }()
	select {
	case err := <-served:
		server.Close() // connections that are still open go with it
		return err
	case <-ctx.Done():
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	if err := server.Shutdown(deadline); err != nil {
		cut(errors.Join(err, server.Close()))
	}
	<-served
	return nil
}
