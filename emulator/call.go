package emulator

import (
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	jsonType = "application/json; charset=utf-8"
	textType = "text/plain; charset=utf-8"
	htmlType = "text/html; charset=utf-8"
)

// accepted is the body of every success. The count is 0 in every answer of the
// service that was ever seen, however many rows were sent.
const accepted = `{"Tables":[{"TableName":"Table_0","Columns":[{"ColumnName":"ConsumedRecordsCount","DataType":"Int64"},` +
	`{"ColumnName":"UpdatePolicyStatus","DataType":"String"},{"ColumnName":"UpdatePolicyFailureCode","DataType":"String"},` +
	`{"ColumnName":"UpdatePolicyFailureReason","DataType":"String"}],"Rows":[[0,"Inactive","Unknown",null]]}]}`

// drainLimit is how much of an unread body is taken in before a refusal, so
// that a client in the middle of its post reads the answer and not a reset.
const drainLimit = 64 << 20

// call is one request under way. It belongs to the goroutine of its handler.
type call struct {
	s        *Server
	w        http.ResponseWriter
	r        *http.Request
	in       io.Reader // the request's body, never nil
	kind     Kind
	rec      Request // filled as things become known
	recorded bool

	cancelled context.Context // ends with the query: its cause is why
}

// begin returns the call that handles one request. It starts the request's record (c.rec), and sets
// the answer's x-ms-client-request-id (the client's, or a new one) and x-ms-activity-id headers.
func (s *Server) begin(kind Kind, w http.ResponseWriter, r *http.Request) *call {
	c := &call{s: s, w: w, r: r, in: cmp.Or(r.Body, io.ReadCloser(http.NoBody)), kind: kind, cancelled: context.Background()}
	id := r.Header.Get("x-ms-client-request-id")
	c.rec = Request{
		Time: time.Now(), Method: r.Method, RawPath: wirePath(r), Query: r.URL.RawQuery,
		Header: withoutToken(r.Header), ClientRequestID: id, Attempt: attemptOf(id), ActivityID: uuid.NewString(),
	}
	if id == "" {
		id = "unspecified;" + uuid.NewString()
	}
	w.Header().Set("x-ms-client-request-id", id)
	w.Header().Set("x-ms-activity-id", c.rec.ActivityID)
	return c
}

// identify makes id the client request id of the call, in its record and in the answer's header. A
// query can name it in its properties, which are read after begin.
func (c *call) identify(id string) {
	c.rec.ClientRequestID, c.rec.Attempt = id, attemptOf(id)
	c.w.Header().Set("x-ms-client-request-id", printable(id))
}

// printable replaces the characters of an id that may not stand in a header by question marks.
func printable(id string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, id)
}

// attemptOf returns the number behind the last semicolon of a request id, where this project's client
// puts the attempt; 0 when there is no number.
func attemptOf(id string) int {
	n, err := strconv.Atoi(id[strings.LastIndexByte(id, ';')+1:])
	if err != nil {
		return 0
	}
	return n
}

// record adds the call of an ingest request to the request log, once; other kinds are not logged. It
// runs before the answer is sent, so that a client that has read the answer finds the request in the
// log. Status 0 says that no answer was sent.
func (c *call) record(status int) {
	if c.recorded || c.kind != KindIngest {
		return
	}
	c.recorded = true
	c.rec.Status = status
	c.rec.Elapsed = time.Since(c.rec.Time)
	c.s.log.add(c.rec)
	c.s.opt.Logger.Debug("request answered", "database", c.rec.Database, "table", c.rec.Table,
		"records", c.rec.Records, "bytes", c.rec.BodyLen, "status", status, "code", c.rec.Code)
}

// refuse sends the error answer e. It does nothing if e is the value named answered, which stands for
// a request that has its answer already. Before it answers, it reads up to drainLimit
// bytes of the rest of the body, so that a client in the middle of its post does not get a reset. It
// does not if the client waits for 100 Continue before it sends its body.
func (c *call) refuse(e *refusal) {
	if e == answered {
		return
	}
	if !strings.EqualFold(c.r.Header.Get("Expect"), "100-continue") {
		io.CopyN(io.Discard, c.in, drainLimit) // an error means that the client left, and gets no answer anyway
	}
	maps.Copy(c.w.Header(), e.header)
	c.rec.Code, c.rec.Message = e.code, e.detail
	body, ctype := e.render(c.w.Header().Get("x-ms-client-request-id"), c.rec.ActivityID, acceptsJSON(c.r.Header))
	c.send(e.status, ctype, body)
}

// encodings are those an answer may be sent in, the preferred first.
var encodings = []struct {
	name string
	pack func(io.Writer) io.WriteCloser
}{
	{"gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }},
	{"deflate", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }},
}

// send records the call and writes a complete answer, compressed with gzip or deflate when the client
// accepts that. It ignores errors of writing: the client has left then.
func (c *call) send(status int, contentType string, body []byte) {
	c.record(status)
	h := c.w.Header()
	if contentType != "" && len(body) > 0 {
		h.Set("Content-Type", contentType)
	}
	for _, e := range encodings {
		if len(body) > 0 && accepts(c.r.Header, e.name) {
			h.Set("Content-Encoding", e.name)
			c.w.WriteHeader(status)
			zw := e.pack(c.w)
			zw.Write(body)
			zw.Close()
			return
		}
	}
	if status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	c.w.WriteHeader(status)
	c.w.Write(body)
}

// reset records the call as unanswered and closes the connection at once: with a TCP RST, and without
// the closing message of TLS. If the connection cannot be taken over, it aborts the request by a
// panic, as abort does.
func (c *call) reset() {
	c.record(0)
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		c.abort()
	}
	under := conn
	if secure, ok := conn.(*tls.Conn); ok {
		under = secure.NetConn()
	}
	if tcp, ok := under.(*net.TCPConn); ok {
		tcp.SetLinger(0) // Close then sends an RST instead of a FIN
	}
	under.Close() // closing conn would send the closing message of TLS first
}

// abort records the call as unanswered and makes net/http close the connection. It never returns but
// panics with http.ErrAbortHandler: for a handler that returns, net/http sends an empty 200.
func (c *call) abort() {
	c.record(0)
	panic(http.ErrAbortHandler)
}

// acceptsJSON reports whether the Accept header admits JSON. The service sends its errors as JSON only
// to such clients.
func acceptsJSON(h http.Header) bool {
	accept := strings.ToLower(strings.Join(h.Values("Accept"), ","))
	return strings.Contains(accept, "application/json") || strings.Contains(accept, "*/*") || strings.Contains(accept, "application/*")
}

// accepts reports whether the Accept-Encoding header names the encoding with a weight above 0. A
// weight that is missing or malformed counts as above 0.
func accepts(h http.Header, encoding string) bool {
	for part := range strings.SplitSeq(strings.ToLower(strings.Join(h.Values("Accept-Encoding"), ",")), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(part, " ", ""), ";")
		if name == encoding {
			q, err := strconv.ParseFloat(strings.TrimPrefix(weight, "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}
