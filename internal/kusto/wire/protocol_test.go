package wire

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"
)

// link is a relay to a server that is so far away: bytes arrive half a round trip after
// they were sent, in order, however many are on the way. It ends with the test.
func link(b *testing.B, to string, trip time.Duration) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	keep := func(nc net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, nc)
	}
	wg.Go(func() { // ends with the listener
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				b.Error(err)
				near.Close()
				return
			}
			keep(near)
			keep(far)
			// Both end with their connections.
			wg.Go(func() { delayed(far, near, trip/2) })
			wg.Go(func() { delayed(near, far, trip/2) })
		}
	})
	b.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, nc := range open {
			nc.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// delayed copies what it reads, each piece so much later.
func delayed(to, from net.Conn, by time.Duration) {
	type piece struct {
		due  time.Time
		data []byte
	}
	onWay := make(chan piece, 1<<14)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(onWay)
	wg.Go(func() { // ends with onWay
		defer to.Close()
		for p := range onWay {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.data) // where it fails there is nobody to read it
		}
	})
	for {
		buf := make([]byte, 32<<10)
		n, err := from.Read(buf)
		if n > 0 {
			onWay <- piece{time.Now().Add(by), buf[:n]}
		}
		if err != nil {
			return
		}
	}
}

// BenchmarkProtocol uploads bodies of the usual sizes over TLS to a service at some
// distance with our transport, as HTTP/1.1 and as HTTP/2. The service is Go's, with the
// windows of Go for HTTP/2, and with those of Kestrel, which many services are made
// with. An iteration is 32 requests, 8 at a time, over connections that are there. The
// long form goes further and has larger bodies.
func BenchmarkProtocol(b *testing.B) {
	const requests, atOnce = 32, 8
	sizes, trips := []int{200_000}, []time.Duration{0, 10 * time.Millisecond}
	if os.Getenv("KUSTO_AGENT_LONG") != "" {
		sizes, trips = append(sizes, 1_000_000), append(trips, 50*time.Millisecond, 200*time.Millisecond)
	}
	for _, size := range sizes {
		body := make([]byte, size)
		rand.Read(body)
		for _, trip := range trips {
			for _, p := range []struct {
				name  string
				two   bool
				conf  http.HTTP2Config
				proto string
			}{
				{"HTTP1.1", false, http.HTTP2Config{}, "HTTP/1.1"},
				{"HTTP2", true, http.HTTP2Config{}, "HTTP/2.0"},
				{"HTTP2-Kestrel", true, http.HTTP2Config{MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 768 << 10}, "HTTP/2.0"},
			} {
				b.Run(fmt.Sprintf("%dkB/%v/%s", size/1000, trip, p.name), func(b *testing.B) {
					s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.Proto != p.proto {
							b.Errorf("got %s, want %s", r.Proto, p.proto)
						}
						io.Copy(io.Discard, r.Body)
					}))
					s.EnableHTTP2, s.Config.HTTP2 = true, &p.conf
					s.StartTLS()
					defer s.Close()
					n := Network{Idle: atOnce}
					t := n.transport(nil, &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, DynamicRecordSizingDisabled: true})
					t.Protocols.SetHTTP2(p.two)
					t.Protocols.SetHTTP1(!p.two)
					defer t.CloseIdleConnections()
					url := "https://" + link(b, s.Listener.Addr().String(), trip)
					round := func(requests int) {
						var wg sync.WaitGroup
						next := make(chan struct{}, requests)
						for range requests {
							next <- struct{}{}
						}
						close(next)
						for range atOnce {
							wg.Go(func() {
								for range next {
									req, err := http.NewRequest(http.MethodPost, url, &upload{rest: body})
									if err != nil {
										b.Error(err)
										return
									}
									req.ContentLength = int64(size)
									resp, err := t.RoundTrip(req)
									if err != nil {
										b.Error(err)
										return
									}
									io.Copy(io.Discard, resp.Body)
									resp.Body.Close()
								}
							})
						}
						wg.Wait()
					}
					round(atOnce) // opens the connections
					b.SetBytes(int64(requests * size))
					for b.Loop() {
						round(requests)
					}
				})
			}
		}
	}
}
