package telemetry

import (
	"encoding/json"
	"testing"
	"unicode"
)

func TestEscapeJSON(t *testing.T) {
	f := func(doc, want string) {
		t.Helper()
		if got := string(EscapeJSON([]byte(doc))); got != want {
			t.Errorf("%q: got %q, want %q", doc, got, want)
		}
	}
	f("", "")
	f("{\"a\":\"größe ☃ \ufffd\"}\n", "{\"a\":\"größe ☃ \ufffd\"}\n")
	f("\"\u009b\u202e\u2066\u200e\u061c\x7f\"", `"\u009b\u202e\u2066\u200e\u061c\u007f"`)
	f("{\r\n \x1b}\n", "{\\u000d\n \\u001b}\n")
	f("\"\U000e0041é\"", `"\udb40\udc41é"`)
	f("\"\x9b\u202e\ufffd\"", "\"\\ufffd\\u202e\ufffd\"")
}

// FuzzEscapeJSON: the document says the same, and every character of it can be printed.
func FuzzEscapeJSON(f *testing.F) {
	f.Add("a\u009b\u202e\xff\U000e0041\n")
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		clean := EscapeJSON(doc)
		for _, r := range string(clean) {
			if !unicode.IsPrint(r) {
				t.Errorf("%U in %q", r, clean)
			}
		}
		var want, got string
		if err := json.Unmarshal(doc, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(clean, &got); err != nil || got != want {
			t.Errorf("%q became %q, %v", want, got, err)
		}
	})
}
