package wire

import (
	"net"
	"sync/atomic"
	"time"
)

// answerGrace is how long an answer may still take after the connection broke
// under our writing.
const answerGrace = 5 * time.Second

// conn keeps a failed write to itself. A server may refuse a request while its
// body is being sent: it answers, and closes without reading the rest, so that
// our next write fails. net/http gives up at a failed write, and the answer,
// already in our receive buffer, is lost. So the write is let succeed into
// nothing, and reading goes on until the answer or the end. What was written
// whole is known from broken.
//
// It lies below TLS, and in a tunnel below the proxy's protocol too.
type conn struct {
	net.Conn
	broken  atomic.Bool // a write failed: not all of a request reached the network
	leaving atomic.Bool // TLS is saying goodbye; what it writes is part of no request
}

// Write writes to the connection. After the first failed write it reports success without writing
// anything, and the answer must come within answerGrace. So an answer that the server sent before
// it closed the connection can still be read. After SetWriteDeadline, errors are returned.
func (c *conn) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	if err == nil || c.leaving.Load() {
		return n, err
	}
	c.broken.Store(true)
	// If this fails too, the connection is closed, and reading ends at once.
	_ = c.Conn.SetReadDeadline(time.Now().Add(answerGrace))
	return len(p), nil
}

// SetWriteDeadline sets the deadline, and notes that what is written from now on is part of no request,
// so that Write reports its errors. The only caller is crypto/tls, before the alert with which it closes
// an idle connection.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.leaving.Store(true)
	return c.Conn.SetWriteDeadline(t)
}
