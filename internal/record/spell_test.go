package record

import "testing"

func TestSpell(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		if got := Spell(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	f("", "")
	f("/a/b.log", "/a/b.log")
	f("/größe\n\u202e", "/größe\n\u202e") // sound text: whoever shows it makes it printable
	f("/a\xff\n", `"/a\xff\n"`)
}
