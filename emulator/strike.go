package emulator

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// interrupted applies the fault that is due for the call at this moment, if there is one, and reports
// whether that has ended the call. After a mere delay or hang it returns false, and the call goes on.
func (c *call) interrupted(when When, decoded []byte) bool {
	sc := c.s.faults.strike(when, c.kind, &c.rec, decoded)
	if sc == nil {
		return false
	}
	f := sc.fault
	c.rec.Fault = f.String()
	c.hold(sc)
	switch {
	case f.Reset:
		c.reset()
	case f.Status != 0:
		c.misanswer(f)
	default:
		return false
	}
	return true
}

// String describes the fault in a few words, for the request log.
func (f Fault) String() string {
	what := "delay " + f.Delay.String()
	switch {
	case f.Reset:
		what = "reset"
	case f.Status != 0:
		what = strconv.Itoa(f.Status)
	case f.Hang:
		what = "hang"
	}
	return what + " at " + string(cmp.Or(f.When, BeforeCommit))
}

// hold makes the call wait for the fault's delay, or as long as it hangs; removing the fault or
// cancelling the query ends the wait. It aborts the call (by a panic) if the client leaves or the
// server closes meanwhile.
func (c *call) hold(sc *Script) {
	defer sc.release() // also if the call is aborted
	if sc.fault.Delay > 0 {
		c.wait(sc, time.After(sc.fault.Delay))
	}
	if sc.fault.Hang {
		c.wait(sc, nil)
	}
}

// wait returns when over delivers a time (nil: it never does), the fault is removed or the query is
// cancelled. If the client leaves or the server closes first, wait ends the request without an answer,
// by the panic of abort.
func (c *call) wait(sc *Script, over <-chan time.Time) {
	select {
	case <-over:
	case <-sc.removed:
	case <-c.cancelled.Done():
	case <-c.s.closing:
		c.abort()
	case <-c.r.Context().Done():
		c.abort()
	}
}

// misanswer sends the answer that the fault describes. Unlike refuse it does not read the rest of the
// body first.
func (c *call) misanswer(f Fault) {
	h := c.w.Header()
	if f.Status/100 == 3 && f.Header["Location"] == "" { // a redirect has to have one
		h.Set("Location", "/")
	}
	for name, value := range f.Header {
		h.Set(name, value)
	}
	e := f.refusal()
	c.rec.Code = e.code
	if f.Status == http.StatusNoContent || f.Status == http.StatusNotModified {
		c.send(f.Status, "", nil)
		return
	}
	body, ctype := e.render(h.Get("x-ms-client-request-id"), c.rec.ActivityID, f.As != AsText)
	ctype = cmp.Or(f.Type, ctype)
	if f.Truncate || f.Size != 0 || f.Trickle > 0 {
		c.sendOddly(f, ctype, body)
		return
	}
	c.send(f.Status, ctype, body)
}

// refusal returns the status and body that the fault answers with, before they are truncated, repeated
// or sent slowly. A fault that sets neither As nor Code gets what is usual for its status: an empty
// body for 3xx and 401, a page of HTML for 502, the service's success for 200, else its JSON error.
func (f Fault) refusal() *refusal {
	plain := func(text, ctype string) *refusal {
		return &refusal{status: f.Status, text: text, contentType: ctype}
	}
	switch {
	case f.Body != "":
		return plain(f.Body, jsonType)
	case f.As == AsEmpty, f.As == "" && f.Code == "" && (f.Status/100 == 3 || f.Status == http.StatusUnauthorized):
		return plain("", "")
	case f.As == AsHTML || f.As == "" && f.Code == "" && f.Status == http.StatusBadGateway:
		return plain(fmt.Sprintf("<html><head><title>%d %[2]s</title></head><body><h1>%[1]d %[2]s</h1></body></html>\n",
			f.Status, http.StatusText(f.Status)), htmlType)
	case f.As == AsJunk:
		return plain("\x00junk}{ that is no JSON", "application/octet-stream")
	case f.Status == http.StatusOK && f.Code == "":
		return plain(accepted, jsonType)
	}
	e := byStatus(f.Status)
	e.status = f.Status
	e.code = cmp.Or(f.Code, e.code)
	if f.Message != "" {
		e.message, e.detail = f.Message, f.Message
	}
	if f.Permanent != nil {
		e.permanent = *f.Permanent
	}
	return e
}

// sendOddly sends the answer of a fault that sets Truncate, Size or Trickle: it announces the whole
// length and sends half, repeats the body up to Size bytes (without end when Size is negative), or
// sends one byte at a time.
func (c *call) sendOddly(f Fault, ctype string, body []byte) {
	c.record(f.Status)
	h := c.w.Header()
	h.Set("Content-Type", ctype)
	if len(body) == 0 {
		body = []byte(" ")
	}
	size := cmp.Or(f.Size, int64(len(body)))
	sent := size
	if size > 0 {
		h.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	if f.Truncate && size > 0 {
		sent = size / 2
	}
	c.w.WriteHeader(f.Status)
	if f.Trickle > 0 {
		c.trickle(f.Trickle, body, sent)
		return
	}
	block := bytes.Repeat(body, max(1, 64<<10/len(body)))
	for size < 0 || sent > 0 {
		n := len(block)
		if size > 0 {
			n = int(min(sent, int64(n)))
		}
		if _, err := c.w.Write(block[:n]); err != nil || c.gone() {
			return
		}
		sent -= int64(n)
	}
}

// trickle sends count bytes, one each interval, repeating body; a negative count means without end.
func (c *call) trickle(interval time.Duration, body []byte, count int64) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	rc := http.NewResponseController(c.w)
	for i := int64(0); i < count || count < 0; i++ {
		at := i % int64(len(body))
		if _, err := c.w.Write(body[at : at+1]); err != nil || rc.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-c.s.closing:
			return
		case <-c.r.Context().Done():
			return
		}
	}
}

// gone reports whether the client has left or the server closes.
func (c *call) gone() bool {
	select {
	case <-c.s.closing:
		return true
	case <-c.r.Context().Done():
		return true
	default:
		return false
	}
}
