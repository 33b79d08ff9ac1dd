package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"syscall"
	"time"
)

// Doing is something that a Control does for whoever may open its socket: it takes and
// returns a JSON document.
type Doing func(ctx context.Context, in json.RawMessage) (out any, err error)

// Do1 turns f into a Doing, the handler of one POST /v1/do/NAME: the JSON of the request is decoded
// to In, and Out is encoded as the answer. Unknown fields in the request are an error.
func Do1[In, Out any](f func(context.Context, In) (*Out, error)) Doing {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var in In
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields() // a client of a later version asks for more: better nothing than half of it
		if err := dec.Decode(&in); err != nil {
			return nil, fmt.Errorf("read what is asked for: %w", err)
		}
		return f(ctx, in)
	}
}

// mostAsked is how many bytes may be sent to a Doing: the ids of a million payloads.
const mostAsked = 64 << 20

// serveDo answers POST /v1/do/NAME: it calls the Doing of that name with the body and answers with
// its result. Such requests change what the agent keeps, so they run one after another.
func (c *Control) serveDo(w http.ResponseWriter, r *http.Request) {
	do := c.o.Do[r.PathValue("what")]
	if do == nil {
		refuse(w, http.StatusNotFound, "the agent does not know how to do %q", r.PathValue("what"))
		return
	}
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{}) // no time limit: a client that does not want to wait disconnects
	in, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostAsked))
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	select {
	case c.doing <- struct{}{}:
		defer func() { <-c.doing }()
	case <-r.Context().Done():
		return
	}
	out, err := do(r.Context(), in)
	c.answer(w, out, err)
}

// ErrOlder says that the agent is of a version that cannot do what it is asked for.
var ErrOlder = errors.New("the agent that runs is of an older version; restart it")

// Do asks the agent whose state folder is dir to do something: it sends in and decodes the answer
// to out. The errors are those of FetchFiles, and ErrOlder if the agent does not know the request.
func Do(ctx context.Context, dir, what string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	answer, err := request(ctx, dir, http.MethodPost, "/v1/do/"+what, nil, bytes.NewReader(body))
	switch {
	case errors.Is(err, ErrInput): // the agent answered 404: it has no such request
		return fmt.Errorf("%w (%s)", ErrOlder, err)
	case err != nil:
		return err
	}
	defer answer.Close()
	if err := json.NewDecoder(answer).Decode(out); err != nil {
		return fmt.Errorf("read the answer of the agent: %w", err)
	}
	return nil
}

// Answers reports whether an agent accepts connections on the control socket in the state folder
// dir. It is also true if that cannot be found out, for example without permission to connect.
func Answers(dir string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := dial(ctx, dir)
	if err == nil {
		c.Close()
		return true
	}
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENOTDIR)
}
