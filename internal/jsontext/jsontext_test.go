package jsontext

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzText: of a sound value the end is where encoding/json has it, of a sound string the text is
// that of encoding/json, and of whatever else no index is beyond its end.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,"\"}"],"b":{}} `, `"\ud83d\ude00\ud800\u00e9\ufffd\\"`, `"\ud800\udcGG"`, `'a\'b'`, `{"a":/* } */1}`, `{"a":1 // }` + "\n}", `-1.5e3,`, `\`, `/`, `/*`, `"\u12`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for i := range b {
			if end := ValueEnd(b, i); end <= i || end > len(b) {
				t.Fatalf("the value at %d of %q ends at %d", i, b, end)
			}
			if end := CommentEnd(b, i); end < i || end > len(b) {
				t.Fatalf("the comment at %d of %q ends at %d", i, b, end)
			}
			if at := SkipSpace(b, i); at < i || at > len(b) {
				t.Fatalf("behind the white space at %d of %q is %d", i, b, at)
			}
		}
		AppendPlain(nil, b)
		if !json.Valid(b) {
			return
		}
		from := SkipSpace(b, 0)
		end := ValueEnd(b, from)
		if !json.Valid(b[from:end]) || SkipSpace(b, end) != len(b) {
			t.Fatalf("the value in %q is taken for %q", b, b[from:end])
		}
		if b[from] != '"' || !utf8.Valid(b) {
			return
		}
		var want string
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		if plain, _ := AppendPlain([]byte("x"), b[from+1:end-1]); string(plain) != "x"+want {
			t.Fatalf("%q stands for %q, got %q", b, want, plain[1:])
		}
	})
}

func TestLossyTellsHalfAPairAlone(t *testing.T) {
	for content, want := range map[string]bool{`\ud83d\ude00`: false, `\ufffd`: false, "\ufffd": false, `\ud83d`: true, `\ude00x`: true, `\ud83d\u0041`: true, `\ud800\udcGG`: true} {
		if text, lossy := AppendPlain(nil, []byte(content)); lossy != want {
			t.Errorf("%s becomes %q, lossy %v; want %v", content, text, lossy, want)
		}
	}
}
