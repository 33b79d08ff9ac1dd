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

// FetchFiles asks the running agent whose state folder is dir for the list of its files. If inputs
// is not empty, the list has only files of these inputs. all adds files that are gone but still
// known, and files that exclude patterns leave out. errors.Is finds syscall.ENOENT or ECONNREFUSED
// if no agent runs, EACCES if the caller may not connect, and ErrInput if an input does not exist.
func FetchFiles(ctx context.Context, dir string, inputs []string, all bool) (*FileList, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // long, since the agent scans all folders for it
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

// FetchStatus asks the running agent whose state folder is dir for its status, over the control
// socket. errors.Is finds syscall.ENOENT or ECONNREFUSED if no agent runs, and EACCES if the caller
// may not connect.
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

// OpenTap asks the running agent whose state folder is dir to stream the records of these inputs
// while it reads them, until ctx ends. The errors are those of FetchFiles. The caller closes the
// reader.
func OpenTap(ctx context.Context, dir string, inputs []string) (*TapReader, error) {
	body, err := ask(ctx, dir, "/v1/tap", url.Values{"input": inputs})
	if err != nil {
		return nil, err
	}
	return &TapReader{body: body, in: bufio.NewReaderSize(body, streamed)}, nil
}

// ask makes a GET request on the control socket. Closing the body closes the connection.
func ask(ctx context.Context, dir, path string, values url.Values) (io.ReadCloser, error) {
	return request(ctx, dir, http.MethodGet, path, values, nil)
}

// dial connects to the control socket in the state folder dir.
func dial(ctx context.Context, dir string) (net.Conn, error) {
	addr, done, err := socketAddress(filepath.Join(dir, SocketName))
	if err != nil {
		return nil, err
	}
	defer done()
	return new(net.Dialer).DialContext(ctx, "unix", addr)
}

// request makes a request on the control socket in the state folder dir. It returns the body of an
// answer 200, which the caller closes. Any other answer is an error with the agent's text;
// errors.Is finds ErrInput in that of a 404.
func request(ctx context.Context, dir, method, path string, values url.Values, body io.Reader) (io.ReadCloser, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, dir) },
	}
	target := url.URL{Scheme: "http", Host: "agent", Path: path, RawQuery: values.Encode()}
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
	why := Lines(strings.TrimSpace(string(text)))
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

// Next waits for the next line of the tap. It returns the line decoded, and its raw JSON without
// the line end. The line is a record if its Input is set, otherwise a note about the tap. Data of
// the decoded line holds the bytes of the record, however the JSON encodes them. io.EOF or
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
