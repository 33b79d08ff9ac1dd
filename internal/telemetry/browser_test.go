package telemetry

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// browser is a headless Chromium, spoken to over a pair of pipes. It is for one
// goroutine.
type browser struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	session string
	asked   int
	events  []browserMessage // that came and were not waited for
}

type browserMessage struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// browserPatience is when a test gives up on the browser, which starts slowly on a
// machine that has other things to do.
const browserPatience = 3 * time.Minute

// newBrowser starts one with one empty page. It ends with the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("not with -short: starts a browser")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs chromium, which is not installed")
	}
	hisIn, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, hisOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "kusto-agent-browser")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), browserPatience)
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-extensions", "--hide-scrollbars",
		"--remote-debugging-pipe", "--user-data-dir="+filepath.Join(home, "data"), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.ExtraFiles = []*os.File{hisIn, hisOut}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hisIn.Close()
	hisOut.Close()
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		to.Close()
		from.Close()
		_ = os.RemoveAll(home) // its children may be at it still
	})
	b := &browser{t: t, to: to, from: bufio.NewReader(from)}
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// call asks the browser for something and waits for the answer.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.asked++
	ask := map[string]any{"id": b.asked, "method": method}
	if params != nil {
		ask["params"] = params
	}
	if b.session != "" {
		ask["sessionId"] = b.session
	}
	text, err := json.Marshal(ask)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	for {
		m := b.next()
		if m.ID != b.asked {
			b.events = append(b.events, m)
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
		return
	}
}

func (b *browser) next() (m browserMessage) {
	b.t.Helper()
	text, err := b.from.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("the browser is gone: %v", err)
	}
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

// open shows a page in a window of a size, and waits until it is loaded.
func (b *browser) open(url string, width, height int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.events = nil
	b.call("Page.navigate", map[string]any{"url": url}, nil) // answered when the page is there, not when it is whole
	b.evaluate(`new Promise(whole => document.readyState === "complete" ? whole(true) : addEventListener("load", () => whole(true)))`, new(bool))
}

// complaints are what the browser has to say about the page: things that its policy
// refused, for one.
func (b *browser) complaints() (out []string) {
	b.t.Helper()
	b.evaluate("0", new(int)) // what came before has come
	for _, m := range b.events {
		if m.Method == "Log.entryAdded" || m.Method == "Runtime.exceptionThrown" {
			out = append(out, string(m.Params))
		}
	}
	return out
}

// evaluate has the page work out something, and waits for a promise.
func (b *browser) evaluate(expression string, into any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	if err := json.Unmarshal(answer.Result.Value, into); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
}

// press presses a key.
func (b *browser) press(key string, code int) {
	b.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		event := map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
		if key == "Enter" && kind == "keyDown" {
			event["text"] = "\r"
		}
		b.call("Input.dispatchKeyEvent", event, nil)
	}
}

// picture saves what is seen where KUSTO_AGENT_PICTURES names a folder.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("KUSTO_AGENT_PICTURES")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": false}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		b.t.Fatal(fmt.Errorf("save picture: %w", err))
	}
}
