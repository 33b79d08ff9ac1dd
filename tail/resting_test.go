package tail

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"kusto-agent/internal/record"
)

// leaves calls f with every field of a struct that is no struct itself, by its name.
func leaves(v reflect.Value, name string, f func(name string, v reflect.Value)) {
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem() // also what is not exported
	if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[time.Time]() {
		f(name, v)
		return
	}
	for i := range v.NumField() {
		leaves(v.Field(i), name+"."+v.Type().Field(i).Name, f)
	}
}

// other is a value that differs from the zero value of its type, and from a.
func other(t *testing.T, a reflect.Value) reflect.Value {
	b := reflect.New(a.Type()).Elem()
	switch a.Kind() {
	case reflect.Struct:
		b.Set(reflect.ValueOf(time.Unix(1, 0)))
	case reflect.Bool:
		b.SetBool(!a.Bool())
	case reflect.Int, reflect.Int64:
		b.SetInt(a.Int() + 7)
	case reflect.Uint32, reflect.Uint64:
		b.SetUint(a.Uint() + 7)
	case reflect.Uint8:
		b.SetUint(a.Uint() + 7)
	case reflect.String:
		b.SetString(a.String() + "x")
	case reflect.Slice:
		b.Set(reflect.MakeSlice(a.Type(), 1, 1))
	case reflect.Pointer:
		b.Set(reflect.New(a.Type().Elem()))
	default:
		t.Fatalf("nobody has thought of a field of type %v", a.Type())
	}
	return b
}

// TestRestLosesNothing: a reader in whose reading any field has another value than it would wake with
// keeps the reading, but for the fields that are kept beside it, and those that need not be kept.
func TestRestLosesNothing(t *testing.T) {
	t.Parallel()
	const (
		kept   = "it wakes with the same value"
		set    = "a turn sets it before use"
		noLong = "it says nothing while Long.At is 0"
		atEnd  = "it says nothing while the offset is the size"
	)
	rests := map[string]string{ // with any value of these fields
		".sight.empty": kept, ".Reading.Told.Quarantined": kept, ".Reading.Told.NoText": kept, ".Reading.Told.Marked": kept, ".Reading.Told.Holey": kept,
		".sight.highest": set, ".Reading.Bounds.short": set, ".Reading.Cursor.Quiet": set,
		".Reading.Cursor.Settled":    atEnd,
		".Reading.Cursor.Long.Ended": noLong, ".Reading.Cursor.Long.Indent": noLong, ".Reading.Cursor.Long.Reason": noLong, ".Reading.Cursor.Long.Message": noLong, ".Reading.Cursor.Long.Parts": noLong, ".Reading.Cursor.Long.Head": noLong,
	}
	resting := func() *reader {
		info := record.FileInfo{Path: "/a", First: "/a", Dev: 1, Inode: 2, Birth: 3, Handle: "\x04\x05", Size: 20, Head: record.Head{Len: 16, Sum: 6}}
		k := newGeneration()
		k.of, k.id, k.info, k.position, k.mark = newFiles("in"), 9, info.Facts(), 20, 77
		r := &reader{k: k, busy: &unbusy, shown: shown{size: 20, mtime: 30, grown: 40, active: 50}, ends: ends{atEnd: true}, resting: resting{looked: true, compared: true, registered: true}}
		k.reader = r
		return r
	}
	var names []string
	probe := resting()
	probe.wake()
	leaves(reflect.ValueOf(probe.reading).Elem(), "", func(name string, _ reflect.Value) { names = append(names, name) })
	field := func(r *reader, name string) (v reflect.Value) {
		leaves(reflect.ValueOf(r.reading).Elem(), "", func(n string, f reflect.Value) {
			if n == name {
				v = f
			}
		})
		return v
	}
	for _, name := range names {
		r := resting()
		r.wake()
		v := field(r, name)
		v.Set(other(t, v))
		want := reflect.New(v.Type()).Elem()
		want.Set(v)
		r.rest()
		why, may := rests[name]
		delete(rests, name)
		if is := r.reading == nil; is != may {
			t.Errorf("%s is %v: the reader rests: %v", name, want, is)
		}
		if r.wake(); why == kept && !reflect.DeepEqual(field(r, name).Interface(), want.Interface()) {
			t.Errorf("%s was %v and is %v after a rest", name, want, field(r, name))
		}
	}
	if len(rests) > 0 {
		t.Errorf("there are no fields %v", rests)
	}
	r := resting()
	if r.wake(); r.reading == nil {
		t.Error("a reader that was woken has nothing to read with")
	}
	if r.rest(); r.reading != nil {
		t.Error("a reader at the end of its file does not rest")
	}
}

// TestReadersRest: what was read to its end keeps no reading, and goes on when it grows.
func TestReadersRest(t *testing.T) {
	t.Parallel()
	eachWatch(t, func(t *testing.T, w *world) {
		must(t, os.WriteFile(w.path("a.log"), []byte("a file of one line\n"), 0o644))
		must(t, os.WriteFile(w.path("empty.log"), nil, 0o644))
		long := strings.Repeat("x", 5000)
		must(t, os.WriteFile(w.path("long.log"), []byte(long+"\n"), 0o644))
		w.start()
		w.expect("in", "a file of one line", long)
		rest := func() bool {
			return !slices.ContainsFunc(w.tailer.all(), func(r *reader) bool { return r.reading != nil })
		}
		w.await("both to rest", rest)
		appendTo(t, w.path("a.log"), "more\n")
		appendTo(t, w.path("empty.log"), "the first\n")
		w.expect("in", "more", "the first")
		w.await("both to rest", rest)
	})
}
