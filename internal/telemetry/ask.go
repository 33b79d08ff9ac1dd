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

// FetchFiles asks the agent whose state folder is dir for its files; with inputs only for those of
// these inputs, with all also for files that it only remembers or leaves out. errors.Is finds
// syscall.ENOENT or ECONNREFUSED if no agent runs, and EACCES if the caller may not ask it.
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

// FetchStatus asks the agent whose state folder is dir for its status. The errors are those of
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

// OpenTap asks the agent whose state folder is dir for the records of inputs as they are read, until
// ctx ends. The errors are those of FetchFiles. The caller closes the reader.
func OpenTap(ctx context.Context, dir string, inputs []string) (*TapReader, error) {
	body, err := ask(ctx, dir, "/v1/tap", url.Values{"input": inputs})
	if err != nil {
		return nil, err
	}
	return &TapReader{body: body, in: bufio.NewReaderSize(body, streamed)}, nil
}

// ask makes a GET request on the control socket. Closing the body closes the connection.
func ask(ctx context.Context, dir, path string, values url.Values) (io.ReadCloser, error) {
	return request(ctx, dir, http.MethodGet, url.URL{Scheme: "http", Host: "agent", Path: path, RawQuery: values.Encode()}, nil)
}

// request makes a request on the control socket in dir and returns the body of the answer. A 404 is an
// error that errors.Is takes for ErrInput.
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
		return nil, fmt.Errorf("ask the agent at %s: %w", Printable(filepath.Join(dir, SocketName)), err)
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
	return nil, fmt.Errorf("the agent answers %s: %s", Printable(resp.Status), why)
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

// Next returns the next line, decoded and as it came, without its line end. io.EOF or
// io.ErrUnexpectedEOF mean that the agent has ended.
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
