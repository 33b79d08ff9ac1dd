package telemetry

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// ErrInput says that the agent has no such input; its text lists those it has.
var ErrInput = errors.New("no such input")

// FetchFiles asks the agent with a state folder for its files; with inputs for
// theirs alone, with all also for those it only remembers or is to leave out.
// errors.Is finds syscall.ENOENT or ECONNREFUSED where no agent runs, and EACCES
// where it may not be asked.
func FetchFiles(ctx context.Context, dir string, inputs []string, all bool) (*FileList, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // it looks at all folders
	defer cancel()
	values := url.Values{"input": inputs}
	if all {
		values.Set("all", "true")
	}
	body, err := ask(ctx, dir, "/v1/files", values)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var list FileList
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		return nil, fmt.Errorf("read files from the agent: %w", err)
	}
	return &list, nil
}

// FetchStatus asks the agent with a state folder for its status. Errors are as of
// FetchFiles.
func FetchStatus(ctx context.Context, dir string) (*Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := ask(ctx, dir, "/v1/status", nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return readStatus(body)
}

// OpenTap asks the agent with a state folder for the records of inputs as they
// pass, until ctx ends. Errors are as of FetchFiles.
func OpenTap(ctx context.Context, dir string, inputs []string) (*TapReader, error) {
	body, err := ask(ctx, dir, "/v1/tap", url.Values{"input": inputs})
	if err != nil {
		return nil, err
	}
	return &TapReader{body: body, in: bufio.NewReaderSize(body, streamed)}, nil
}

// ask makes one request. The connection ends with the body.
func ask(ctx context.Context, dir, path string, values url.Values) (io.ReadCloser, error) {
	return request(ctx, dir, http.MethodGet, url.URL{Scheme: "http", Host: "agent", Path: path, RawQuery: values.Encode()}, nil)
}

func request(ctx context.Context, dir, method string, target url.URL, body io.Reader) (io.ReadCloser, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			addr, done, err := socketAddress(filepath.Join(dir, SocketName))
			if err != nil {
				return nil, err
			}
			defer done()
			return new(net.Dialer).DialContext(ctx, "unix", addr)
		},
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("ask the agent at %s: %w", printable(filepath.Join(dir, SocketName)), err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxHeaderBytes))
	why := lines(strings.TrimSpace(string(text)))
	if resp.StatusCode == http.StatusNotFound {
		return nil, &inputError{why}
	}
	return nil, fmt.Errorf("the agent answers %s: %s", printable(resp.Status), why)
}

type inputError struct{ text string }

func (e *inputError) Error() string        { return e.text }
func (e *inputError) Is(target error) bool { return target == ErrInput }

// TapReader reads what a tap brings. It is for one goroutine.
type TapReader struct {
	body io.ReadCloser
	in   *bufio.Reader
}

// TapLine is one line: a record if Input is not empty, else a note.
type TapLine struct {
	TapRecord
	TapNote
	Text   string `json:"data"`
	Base64 []byte `json:"data_base64"`
}

// Next returns the next line and what it was made of, without its line end.
// io.EOF or io.ErrUnexpectedEOF say that the agent is gone.
func (r *TapReader) Next() (*TapLine, []byte, error) {
	raw, err := r.in.ReadBytes('\n')
	if err != nil {
		return nil, nil, err
	}
	raw = raw[:len(raw)-1]
	line := &TapLine{}
	if err := json.Unmarshal(raw, line); err != nil {
		return nil, nil, fmt.Errorf("read records from the agent: %w", err)
	}
	if line.Data = line.Base64; line.Data == nil {
		line.Data = []byte(line.Text)
	}
	return line, raw, nil
}

// Pending reports whether a line, or a part of one, is at hand.
func (r *TapReader) Pending() bool { return r.in.Buffered() > 0 }

// Close ends the tap.
func (r *TapReader) Close() error { return r.body.Close() }
