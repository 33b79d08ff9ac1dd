package wire

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
	"kusto-agent/internal/kusto/internal/reply"
)

const ok = "HTTP/1.1 200 OK\r\n"

func answer(status, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// Each fault of a server, and the one word for it.
func TestServerFaults(t *testing.T) {
	say := func(words string) func(*net.TCPConn) {
		return func(c *net.TCPConn) {
			kustotest.ReadRequest(c)
			io.WriteString(c, words)
		}
	}
	f := func(name string, want kusto.Verdict, wrote bool, do func(*net.TCPConn)) {
		t.Run(name, func(t *testing.T) {
			a := script(t, do).Ingest(t.Context(), sample(strings.Repeat("x", 1<<20)))
			if a.Verdict != want || a.Wrote != wrote || (a.Err == nil) != (want == kusto.Accepted) {
				t.Errorf("got %s, wrote %v, %v; want %s, wrote %v", a.Verdict, a.Wrote, a.Err, want, wrote)
			}
		})
	}
	f("accepted", kusto.Accepted, true, say(answer("200 OK", "")))
	f("reset after the body", kusto.Unknown, true, func(c *net.TCPConn) { kustotest.ReadRequest(c); kustotest.Reset(c) })
	f("closed after the body", kusto.Unknown, true, func(c *net.TCPConn) { kustotest.ReadRequest(c) })
	f("half a status line", kusto.Unknown, true, say("HTTP/1.1 20"))
	f("no HTTP", kusto.Unknown, true, say("SSH-2.0-OpenSSH\r\n"))
	f("half the headers", kusto.Unknown, true, say(ok+"Content-Le"))
	f("half the body", kusto.Unknown, true, say(ok+"Content-Length: 100\r\n\r\n{\"Tables\":"))
	f("half the chunks", kusto.Unknown, true, say(ok+"Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n"))
	f("body up to the end of the connection", kusto.Accepted, true, say(ok+"Connection: close\r\n\r\n{}"))
	f("heads without end", kusto.Unknown, true, say(ok+"X: "+strings.Repeat("y", 2*maxAnswerHeads)+"\r\n\r\n"))
	f("html", kusto.Unknown, true, say(answer("200 OK", html)))
	f("no content", kusto.Unknown, true, say("HTTP/1.1 204 No Content\r\n\r\n"))
	f("bad gateway", kusto.Unknown, true, say(answer("502 Bad Gateway", html)))
	f("empty 401", kusto.Auth, true, say(answer("401 Unauthorized", "")))
	f("error torn in its body", kusto.Retry, true, say("HTTP/1.1 400 Bad\r\nContent-Length: 500\r\n\r\n{\"error\":{"))
	f("invalid UTF-8", kusto.Hold, true, say(answer("400 Bad", "\xff\xfe\x1b[31m")))
	f("garbage said to be gzip", kusto.Hold, true, say("HTTP/1.1 400 Bad\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"))
	f("garbage said to be gzip and accepted", kusto.Unknown, true, say(ok+"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"))
	f("early hints", kusto.Accepted, true, say("HTTP/1.1 103 Early Hints\r\n\r\n"+answer("200 OK", "{}")))
}

// A connection that breaks while the body is being sent stores nothing: it was
// not sent. The body is larger than every buffer on the way.
func TestResetBeforeTheBodyIsWhole(t *testing.T) {
	for name, do := range map[string]func(*net.TCPConn){
		"at once":        kustotest.Reset,
		"after the head": func(c *net.TCPConn) { kustotest.ReadHead(c); kustotest.Reset(c) },
		"in the body":    func(c *net.TCPConn) { kustotest.ReadHead(c); io.CopyN(io.Discard, c, 1000); kustotest.Reset(c) },
		"closed":         func(c *net.TCPConn) { kustotest.ReadHead(c) },
	} {
		t.Run(name, func(t *testing.T) {
			if a := script(t, do).Ingest(t.Context(), big()); a.Verdict != kusto.NotSent || a.Wrote || a.Hint == "" {
				t.Errorf("got %s, wrote %v, %v", a.Verdict, a.Wrote, a.Err)
			}
		})
	}
}

// A server may refuse and hang up while the body is being sent. The refusal is
// there to be read, though writing fails.
func TestEarlyRefusalIsRead(t *testing.T) {
	refusal := answer("400 Bad Request", oneError("Stream_WrongNumberOfFields", "", true))
	for name, end := range map[string]func(*net.TCPConn){
		"closed": func(c *net.TCPConn) { c.Close() },
		"half closed, nothing more read": func(c *net.TCPConn) {
			c.CloseWrite()
			io.CopyN(io.Discard, c, 1<<16)
		},
		"the rest read": func(c *net.TCPConn) { io.Copy(io.Discard, c) },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				c := script(t, func(c *net.TCPConn) {
					kustotest.ReadHead(c)
					io.WriteString(c, refusal)
					end(c)
				})
				a := c.Ingest(t.Context(), big())
				if a.Verdict != kusto.BadData || a.Status != 400 || a.Err.Code != "Stream_WrongNumberOfFields" {
					t.Fatalf("got %s, %v", a.Verdict, a.Err)
				}
			}
		})
	}
}

func TestEarlyAcceptanceIsNotBelieved(t *testing.T) {
	c := script(t, func(c *net.TCPConn) {
		kustotest.ReadHead(c)
		io.WriteString(c, answer("200 OK", "{}"))
	})
	if a := c.Ingest(t.Context(), big()); a.Verdict != kusto.Unknown || a.Wrote {
		t.Errorf("got %s, wrote %v, %v", a.Verdict, a.Wrote, a.Err)
	}
}

// The whole request is bounded, wherever the server stops.
func TestTimeout(t *testing.T) {
	f := func(name string, want kusto.Verdict, in *kusto.Ingest, do func(net.Conn)) {
		t.Run(name, func(t *testing.T) {
			c := script(t, func(c *net.TCPConn) {
				do(c)
				io.Copy(io.Discard, c) // until the client has had enough
			}, timeout(time.Second))
			a := c.Ingest(t.Context(), in)
			if a.Verdict != want || !strings.Contains(a.Err.Error(), "deadline exceeded") {
				t.Errorf("got %s, %v", a.Verdict, a.Err)
			}
		})
	}
	f("no answer", kusto.Unknown, sample("x"), func(c net.Conn) { kustotest.ReadRequest(c) })
	f("headers only", kusto.Unknown, sample("x"), func(c net.Conn) {
		kustotest.ReadRequest(c)
		io.WriteString(c, ok+"Content-Length: 100\r\n\r\n{")
	})
	f("trickle", kusto.Unknown, sample("x"), func(c net.Conn) {
		kustotest.ReadRequest(c)
		io.WriteString(c, "H")
		io.WriteString(c, "T")
	})
}

func TestTimeoutWhileSending(t *testing.T) {
	release := make(chan struct{})
	c := script(t, func(c *net.TCPConn) {
		c.SetReadBuffer(4096)
		kustotest.ReadHead(c)
		<-release // reads nothing more
	}, timeout(time.Second))
	t.Cleanup(func() { close(release) })
	in := sample("")
	in.Body = make([]byte, 32<<20)
	if a := c.Ingest(t.Context(), in); a.Verdict != kusto.NotSent || a.Wrote {
		t.Errorf("got %s, wrote %v, %v", a.Verdict, a.Wrote, a.Err)
	}
}

func TestCallerStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := script(t, func(c *net.TCPConn) {
		kustotest.ReadRequest(c)
		cancel()
		io.Copy(io.Discard, c)
	})
	if a := c.Ingest(ctx, sample("x")); a.Verdict != kusto.Unknown || !a.Wrote {
		t.Errorf("after the body: got %s, %v", a.Verdict, a.Err)
	}
	if a := c.Ingest(ctx, sample("x")); a.Verdict != kusto.NotSent || a.Wrote {
		t.Errorf("before: got %s, %v", a.Verdict, a.Err)
	}
}

// However much a server sends, little of it is read and the connection goes.
func TestAnswersWithoutEnd(t *testing.T) {
	f := func(name string, want kusto.Verdict, head, unit string) {
		t.Run(name, func(t *testing.T) {
			sent, closed := new(atomic.Int64), make(chan struct{})
			c := script(t, func(c *net.TCPConn) {
				defer close(closed)
				kustotest.ReadRequest(c)
				io.WriteString(c, head)
				chunk := strings.Repeat(unit, 1<<16/len(unit))
				for sent.Load() < 1<<30 {
					n, err := io.WriteString(c, chunk)
					sent.Add(int64(n))
					if err != nil {
						return
					}
				}
			})
			if a := c.Ingest(t.Context(), sample("x")); a.Verdict != want {
				t.Errorf("got %s, %v", a.Verdict, a.Err)
			}
			<-closed
			if sent.Load() > 64<<20 { // what socket buffers hold, generously
				t.Errorf("the server could send %d bytes", sent.Load())
			}
		})
	}
	f("json", kusto.Accepted, ok+"Content-Length: 1073741824\r\n\r\n{", " ")
	f("no json", kusto.Unknown, ok+"Content-Length: 1073741824\r\n\r\n", "y")
	f("no json, named", kusto.Accepted, ok+"x-ms-activity-id: a\r\nContent-Length: 1073741824\r\n\r\n", "y")
	f("chunks", kusto.Unknown, ok+"Transfer-Encoding: chunked\r\n\r\n", "4\r\nyyyy\r\n")
	f("refusal", kusto.Hold, "HTTP/1.1 403 Forbidden\r\nContent-Length: 1073741824\r\n\r\n", "y")
}

func TestGzipBombIsNotInflated(t *testing.T) {
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	io.WriteString(zw, "{")
	for range 64 {
		zw.Write(make([]byte, 1<<20))
	}
	zw.Close()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(packed.Bytes())
	})
	if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.Accepted {
		t.Errorf("got %s, %v", a.Verdict, a.Err)
	}
	if n := len(inflate(packed.Bytes())); n > reply.MaxAnswer+1 {
		t.Errorf("%d bytes are unpacked", n)
	}
	o := &outcome{}
	o.read(&http.Response{StatusCode: 400, Header: http.Header{"Content-Encoding": {"gzip"}}, Body: io.NopCloser(&packed)})
	if len(o.Body) != reply.MaxAnswer || !o.long {
		t.Errorf("inflated to %d bytes, long %v", len(o.Body), o.long)
	}
}

func TestGzipErrorIsRead(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(400)
		zw := gzip.NewWriter(w)
		io.WriteString(zw, oneError("BadRequest_InvalidBlob", "", true))
		zw.Close()
	})
	if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.BadData || a.Err.Code != "BadRequest_InvalidBlob" {
		t.Errorf("got %s, %v", a.Verdict, a.Err)
	}
}

// The transport never decides to send a body again: when a server takes a kept
// connection away with a request on it, the caller is told.
func TestNothingIsSentTwiceSilently(t *testing.T) {
	var requests atomic.Int64
	c := script(t, func(c *net.TCPConn) {
		if kustotest.ReadRequest(c) {
			requests.Add(1)
			io.WriteString(c, answer("200 OK", "{}"))
		}
		if kustotest.ReadRequest(c) { // on the same connection
			requests.Add(1)
		}
		kustotest.Reset(c)
	})
	if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.Accepted {
		t.Fatalf("got %s, %v", a.Verdict, a.Err)
	}
	if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.Unknown || requests.Load() != 2 {
		t.Errorf("got %s after %d requests, %v", a.Verdict, requests.Load(), a.Err)
	}
}

func TestExpectContinue(t *testing.T) {
	expect := func(o *Options) { o.ExpectContinue = true }
	t.Run("refused before the body", func(t *testing.T) {
		var left atomic.Int64
		c := script(t, func(c *net.TCPConn) {
			kustotest.ReadHead(c)
			io.WriteString(c, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			n, _ := io.Copy(io.Discard, c)
			left.Store(n)
		}, expect)
		if a := c.Ingest(t.Context(), big()); a.Verdict != kusto.Auth || a.Wrote || left.Load() != 0 {
			t.Errorf("got %s, wrote %v, %d bytes", a.Verdict, a.Wrote, left.Load())
		}
	})
	t.Run("asked for", func(t *testing.T) {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }, expect)
		if a := c.Ingest(t.Context(), big()); a.Verdict != kusto.Accepted || !a.Wrote {
			t.Errorf("got %s, %v", a.Verdict, a.Err)
		}
	})
	t.Run("never asked for", func(t *testing.T) {
		c := script(t, func(c *net.TCPConn) {
			if kustotest.ReadRequest(c) { // without a word in between
				io.WriteString(c, answer("200 OK", "{}"))
			}
		}, expect)
		if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.Accepted {
			t.Errorf("got %s, %v", a.Verdict, a.Err)
		}
	})
	t.Run("not known", func(t *testing.T) {
		c := script(t, func(c *net.TCPConn) {
			kustotest.ReadHead(c)
			io.WriteString(c, answer("417 Expectation Failed", ""))
		}, expect)
		if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.Hold || !strings.Contains(a.Hint, "expect_continue") {
			t.Errorf("got %s, %q", a.Verdict, a.Hint)
		}
	})
}
