package telemetry

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
)

// guests is a listener that never keeps whoever asks waiting for those who do not: when
// it has as many connections as it may have, the oldest that has no request under way is
// closed for the next one. Where all have one, the next waits.
type guests struct {
	net.Listener
	most int

	mu     sync.Mutex
	all    []*guest  // the oldest first
	room   sync.Cond // of mu: a connection has ended or has become idle, or the listener is closed
	closed bool
}

// guest is one connection.
type guest struct {
	net.Conn
	of   *guests
	busy bool // a request is under way; guarded by guests.mu
}

// newGuests returns a listener that keeps at most most connections of ln open, and closes idle ones
// for new ones.
func newGuests(ln net.Listener, most int) *guests {
	g := &guests{Listener: ln, most: most}
	g.room.L = &g.mu
	return g
}

// Accept waits for a connection. If there are already g.most, it closes the oldest one without a
// request in progress; if all have one, it waits for the first that ends or becomes idle. It returns
// net.ErrClosed if the listener is closed while the connection waits.
func (g *guests) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.all) >= g.most {
		i := slices.IndexFunc(g.all, func(o *guest) bool { return !o.busy })
		switch {
		case i >= 0:
			g.all[i].Conn.Close() // the server notices this and calls Close of the guest
			g.all = slices.Delete(g.all, i, i+1)
		case g.closed:
			conn.Close()
			return nil, net.ErrClosed
		default:
			g.room.Wait()
		}
	}
	c := &guest{Conn: conn, of: g}
	g.all = append(g.all, c)
	return c, nil
}

// Close ends Accept.
func (g *guests) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.room.Signal()
	return g.Listener.Close()
}

// Close gives the room to another.
func (c *guest) Close() error {
	c.of.mu.Lock()
	c.of.all = slices.DeleteFunc(c.of.all, func(o *guest) bool { return o == c })
	c.of.mu.Unlock()
	c.of.room.Signal()
	return c.Conn.Close()
}

type guestKey struct{}

// below returns the connection below TLS if conn is one of TLS, otherwise conn itself. That is the
// guest which Accept returned.
func below(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return conn
}

// know stores the connection in the context of its requests; it is for http.Server.ConnContext.
func (g *guests) know(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, below(conn))
}

// serving wraps next: it marks the connection of a request as busy before it calls next, so that
// the connection is not closed for a new one. turned marks it as idle again.
func serving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(guestKey{}).(*guest); ok {
			c.setBusy(true)
		}
		next.ServeHTTP(w, r)
	})
}

// turned is the hook for http.Server.ConnState: it marks a connection that becomes idle, because
// its answer was sent, as not busy.
func turned(conn net.Conn, state http.ConnState) {
	if c, ok := below(conn).(*guest); ok && state == http.StateIdle {
		c.setBusy(false)
	}
}

// setBusy marks whether a request of the connection is in progress. A connection that is not busy
// can be closed for a new one, so Accept is woken.
func (c *guest) setBusy(busy bool) {
	c.of.mu.Lock()
	c.busy = busy
	c.of.mu.Unlock()
	c.of.room.Signal()
}
