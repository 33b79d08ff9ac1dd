package rules

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var testKey = []byte("sixteen bytes or more")

func hashOf(text string) string {
	mac := hmac.New(sha256.New, testKey)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// edit is a record as the rules leave it, and the names of those that acted.
func edit(t *testing.T, c Config, kind Kind, rec string) (out string, acted []string, ok bool) {
	t.Helper()
	c.HashKey = testKey
	s, err := New(c, kind)
	if err != nil {
		t.Fatal(err)
	}
	e := NewEditor(s, kind, ',')
	_, _ = e.Of([]byte(`{"other":"record"}`))
	b, ok := e.Of([]byte(rec))
	for i, on := range e.Acted() {
		if on {
			acted = append(acted, s.Changes()[i])
		}
	}
	return string(b), acted, ok
}

func TestRedact(t *testing.T) {
	all := []string{"email", "ipv4", "bearer", "card"}
	for _, c := range []struct {
		kind      Kind
		rule      Redaction
		rec, want string
	}{
		{Object, Redaction{Member: "a", With: "***"}, `{"a" : "x", "b":[ 1,2 ]}`, `{"a" : "***", "b":[ 1,2 ]}`},
		{Object, Redaction{Member: "user.email", With: Hash}, `{"user":{"email":"a@b.org","n":1}}`, `{"user":{"email":"` + hashOf("a@b.org") + `","n":1}}`},
		{Object, Redaction{Member: "a.b", With: "*"}, `{"a.b":"x","a":{"b":"y"},"b":"z"}`, `{"a.b":"*","a":{"b":"*"},"b":"z"}`},
		{Object, Redaction{Member: "a", With: "*"}, `{"a":[1,"x",null,{"b":true,"c":[{}]}]}`, `{"a":["*","*",null,{"*":"*","*":[{}]}]}`},
		{Object, Redaction{Member: "a", With: "0"}, `{"a":12,"b":{"a":12},"a":"x","c":true}`, `{"a":0,"b":{"a":12},"a":"0","c":true}`},
		{Object, Redaction{Member: "a", With: "0"}, `{"a":true}`, `{"a":"0"}`},
		{Object, Redaction{Member: "a", With: "007"}, `{"a":12}`, `{"a":"007"}`},
		{Object, Redaction{Member: "a", With: "x\"\\'"}, `{"a":"b"}`, `{"a":"x\"\\\u0027"}`},
		{Object, Redaction{Member: "a", With: "x\"'"}, `{'a':'b'}`, `{'a':'x\"\u0027'}`},
		{Object, Redaction{Member: "a", With: "*"}, `{"\u0061":"b","\/a":1}`, `{"\u0061":"*","\/a":1}`},
		{Object, Redaction{Member: "a", With: "*"}, `{"a":""}`, `{"a":""}`},
		{Object, Redaction{Match: `p=\S+`, With: "p=*"}, `{"a":"x p=1\n\u0070=\"2 y\u00e4","p=k":["p=3"]}`, `{"a":"x p=*\np=* y\u00e4","p=*":["p=*"]}`},
		{Object, Redaction{Match: `^x$`, With: "*"}, `{"a":"x","b":"xx"}`, `{"a":"*","b":"xx"}`},
		{Object, Redaction{Match: `x*`, With: "*"}, `{"a":"abxxc"}`, `{"a":"ab*c"}`},
		{Object, Redaction{Member: "a", Match: `\d`, With: "#"}, `{"a":"1b2","c":"3"}`, `{"a":"#b#","c":"3"}`},
		{Object, Redaction{Member: "a", Match: `\d`, With: "0"}, `{"a":123}`, `{"a":"000"}`},
		{Object, Redaction{Match: "s", With: "*"}, "{\"a\":1 /* s */, // s\n\"b\":2}//s", "{\"a\":1 , \"b\":2} "},
		{Object, Redaction{Match: "s", With: "*"}, "{\"a\":1 /* t */, // t\n\"b\":2}", "{\"a\":1 /* t */, // t\n\"b\":2}"},
		{Object, Redaction{Preset: all, With: "*"}, `{"m":"a.b+c@d-e.example.org, 10.0.0.1:80 (Bearer ab.c-d==)","n":4111111111111111,"o":"1.2.3"}`,
			`{"m":"*, *:80 (Bearer *)","n":"*","o":"1.2.3"}`},
		{Object, Redaction{Preset: all, With: "*"}, `{"m":"a\u0040b.org \u0062earer\tx"}`, `{"m":"* \u0062earer\t*"}`},
		{Line, Redaction{Match: `password=\S+`, With: "password=***"}, "a password=b c password=", "a password=*** c password="},
		{Line, Redaction{Preset: all, With: "***"}, "no address@ here, 256.1.1.1", "no address@ here, 256.1.1.1"},
		{Line, Redaction{Preset: []string{"card"}, With: "*"}, "4111 1111 1111 1111, 4111-1111-1111-1112, 5500000000000004x", "*, 4111-1111-1111-1112, *x"},
		{Line, Redaction{Preset: []string{"card"}, With: "*"}, "1700000000004 41111111111111111 4222222222222", "1700000000004 41111111111111111 *"},
		{Line, Redaction{Preset: []string{"ipv4"}, With: "*"}, "1.2.3.4.5 v300.1.2.3.4 1.2.3 10.20.30.400 192.168.001.1", "*.5 v300.* 1.2.3 10.20.30.400 *"},
		{Line, Redaction{Preset: []string{"email"}, With: "*"}, "a@b.com@c.org ä@ö.dé x@y.z1 p=q@r.st.", "* * x@y.z1 p=*."},
		{Row, Redaction{Column: "2", With: "*"}, `a,b,c`, `a,*,c`},
		{Row, Redaction{Column: "2", With: "x,y"}, `a,b,c`, `a,"x,y",c`},
		{Row, Redaction{Column: "4", With: "*"}, `a,b,c`, `*,*,*`},
		{Row, Redaction{Column: "1", With: ""}, `a`, `""`},
		{Row, Redaction{Column: "1", With: ""}, `a,b`, `,b`},
		{Row, Redaction{Match: `x\S*`, With: "*"}, "xa,\"b xc\"\"d\ny\",e", "*,\"b *\ny\",e"},
		{Row, Redaction{Column: "1", With: Hash}, `"a""b",c`, `"` + hashOf(`a"b`) + `",c`},
		{Parsed, Redaction{Match: "x", With: "*"}, `{"message":"x"}`, `{"message":"*"}`},
	} {
		out, acted, ok := edit(t, Config{Redact: []Redaction{c.rule}}, c.kind, c.rec)
		if !ok || out != c.want || (len(acted) > 0) != (out != c.rec) {
			t.Errorf("%+v of %s: %s %t %v, want %s", c.rule, c.rec, out, ok, acted, c.want)
		}
	}
}

// TestRedactInOrder: each rule sees what those before it left, but for what one of them
// put in the place of a whole value.
func TestRedactInOrder(t *testing.T) {
	c := Config{Redact: []Redaction{{Member: "a", With: "x1"}, {Name: "ones", Match: "1", With: "2"}, {Match: "2", With: "3"}}}
	out, acted, _ := edit(t, c, Object, `{"a":"b","c":"1"}`)
	if out != `{"a":"x1","c":"3"}` || !slices.Equal(acted, []string{"redact_1", "ones", "redact_3"}) {
		t.Errorf("%s by %v", out, acted)
	}
}

// TestColumnThatTheHeaderLacks: it may be any column.
func TestColumnThatTheHeaderLacks(t *testing.T) {
	s, err := New(Config{Header: true, Redact: []Redaction{{Column: "user", With: "*"}, {Column: "2", With: "#"}}}, Row)
	if err != nil {
		t.Fatal(err)
	}
	e := NewEditor(s, Row, ',')
	for _, c := range []struct{ header, want string }{{"user,n", "*,#"}, {"n,user", "a,*"}, {"User,n", "*,*"}, {"alice,17", "*,*"}} {
		e.SetHeader([]byte(c.header))
		if out, ok := e.Of([]byte("a,b")); !ok || string(out) != c.want {
			t.Errorf("behind the header %s: %s, want %s", c.header, out, c.want)
		}
	}
}

// TestNumberedNames: of a name that comes twice parse makes name_2, which redact and
// remove take for the name; in JSON as it is in the file they are two names.
func TestNumberedNames(t *testing.T) {
	redact := Config{Redact: []Redaction{{Member: "a.password", With: "*"}}}
	for _, c := range []struct {
		c         Config
		kind      Kind
		rec, want string
	}{
		{redact, Parsed, `{"a":{"password":"x","password_2":"y","password_10":"z"}}`, `{"a":{"password":"*","password_2":"*","password_10":"*"}}`},
		{redact, Message, `{"a_2":{"password_2":"x"},"a.password_3":"y"}`, `{"a_2":{"password_2":"*"},"a.password_3":"*"}`},
		{redact, Parsed, `{"a_2_2":{"password_2_3":"x"}}`, `{"a_2_2":{"password_2_3":"*"}}`},
		{redact, Parsed, `{"a":{"password_":"x","password_x":"y","password2":"z","2":1,"_2":2}}`, `{"a":{"password_":"x","password_x":"y","password2":"z","2":1,"_2":2}}`},
		{redact, Object, `{"a":{"password":"x","password_2":"y"}}`, `{"a":{"password":"*","password_2":"y"}}`},
		{Config{Redact: []Redaction{{Member: "a_2", With: "*"}}}, Parsed, `{"a":1,"a_2":2,"a_3":3,"a_2_2":4}`, `{"a":1,"a_2":"*","a_3":3,"a_2_2":"*"}`},
		{Config{Remove: []string{"a.b"}}, Parsed, `{"a_2":{"b_2":1,"c":2},"a.b_3":3}`, `{"a_2":{"c":2}}`},
		{Config{Remove: []string{"a"}}, Object, `{"a_2":1}`, `{"a_2":1}`},
		{Config{Rename: map[string]string{"a": "b"}, Add: map[string]string{"c": "x"}}, Parsed, `{"a_2":1,"c_2":2}`, `{"a_2":1,"c_2":2,"c":"x"}`},
	} {
		if out, _, ok := edit(t, c.c, c.kind, c.rec); !ok || out != c.want {
			t.Errorf("%+v of %s: %s %t, want %s", c.c, c.rec, out, ok, c.want)
		}
	}
}

// TestBearer: what parts a token from the word, where it ends, and words that are not yet
// the token.
func TestBearer(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"Bearer Bearer eyJ x", "Bearer * x"},
		{"bearer token eyJ x", "bearer * x"},
		{"bearer token: eyJ, x", "bearer * x"},
		{"Bearer bearer=Token:  eyJ)", "Bearer *)"},
		{"Bearer access_token eyJ", "Bearer *"},
		{"Bearer token", "Bearer *"},
		{"bearer bearer", "bearer *"},
		{"bearer b:bearer c d", "bearer * d"},
		{"bearer b:bearer%20 c d", "bearer * d"},
		{"Bearer 12|Qw8 x", "Bearer * x"},
		{"bearer:abc:def;g", "bearer:*;g"},
		{"Bearer a,b c", "Bearer * c"},
		{"(Bearer x) [Bearer y] {Bearer z} <b>Bearer v</b>", "(Bearer *) [Bearer *] {Bearer *} <b>Bearer *</b>"},
		{"Bearer%20eyJ", "Bearer%20*"},
		{"Bearer%3a%09eyJ%20x", "Bearer%3a%09*"},
		{"Bearer+eyJ", "Bearer+*"},
		{"Bearer\u00a0eyJ\u00a0x", "Bearer\u00a0*\u00a0x"},
		{"Bearer\u2003\u3000eyJ", "Bearer\u2003\u3000*"},
		{`{\"bearer\":\"x\",\"n\":1}`, `{\"bearer\":\"*\",\"n\":1}`},
		{`{\\\"bearer\\\":\\\"a\b\\\"}`, `{\\\"bearer\\\":\\\"*\\\"}`},
		{"Bearer äb", "Bearer *"},
		{"bearers of x, forbearer; bearer", "bearers of x, forbearer; bearer"},
		{"bearer: ;x", "bearer: ;x"},
		{"Bearer%2", "Bearer%2"},
	} {
		if out, _, ok := edit(t, Config{Redact: []Redaction{{Preset: []string{"bearer"}, With: "*"}}}, Line, c.text); !ok || out != c.want {
			t.Errorf("%s: %s, want %s", c.text, out, c.want)
		}
	}
}

// TestEmail: signs that stand for @, and quotes in the name before it.
func TestEmail(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"mail=a.b%40c.org&x", "mail=*&x"},
		{"a\uff20b.org x", "* x"},
		{"ä\uff20ö.dé x", "* x"},
		{"o'brien@x.org", "*"},
		{"'a@b.org','c@d.org'", "'*','*'"},
		{"''@b.org %40b.org \uff20b.org", "''@b.org %40b.org \uff20b.org"},
		{"a%40b%40c.org", "*"},
		{"user%40mail@x.org", "*"},
		{"a%40b.org@c.org,x%40y", "*,x%40y"},
		{"a\uff20b.org\uff20c.org", "*"},
		{"100%40 of 5%4", "100%40 of 5%4"},
		{strings.Repeat(" ", atWindow-2) + "a%40b.org " + strings.Repeat("x", atWindow) + "\uff20b.org", strings.Repeat(" ", atWindow-2) + "* *"},
	} {
		if out, _, ok := edit(t, Config{Redact: []Redaction{{Preset: []string{"email"}, With: "*"}}}, Line, c.text); !ok || out != c.want {
			t.Errorf("%s: %s, want %s", c.text, out, c.want)
		}
	}
	out, _, ok := edit(t, Config{Redact: []Redaction{{Preset: []string{"email"}, With: "*"}}}, Object, `{'a':'o\'b@c.org',"b":"x\uff20y.org"}`)
	if !ok || out != `{'a':'*',"b":"*"}` {
		t.Errorf("of an object: %s", out)
	}
}

// TestOverlaps: what begins inside of something found and reaches beyond it goes with it.
func TestOverlaps(t *testing.T) {
	for _, c := range []struct {
		presets    []string
		text, want string
	}{
		{[]string{"card"}, "2024-05-05 4111 1111 1111 1111", "*"},
		{[]string{"card"}, "x 2024-05-05 4111 1111 1111 1111 4222222222222y", "x * *y"},
		{[]string{"card"}, "4111 1111 1111 1111 4111 1111 1111 1111", "* *"},
		{[]string{"email"}, "a@b.com@c.org x", "* x"},
		{[]string{"email"}, "a@b.com,c@d.org", "*,*"},
		{[]string{"card", "email"}, "4111 1111 1111 1111@x.org", "*"},
		{[]string{"ipv4", "email"}, "1.2.3.4@x.org x.1.2.3.4@y.org", "* *"},
		{[]string{"email", "bearer"}, "a@b.bearer:tok", "*:*"},
		{[]string{"bearer", "email"}, "bearer x<a@b.org", "bearer *<*"},
		{[]string{"bearer", "email"}, "bearer x|a<a@b.org", "bearer *<*"},
		{[]string{"bearer", "card"}, "bearer x:4111 1111 1111 1111!", "bearer *!"},
		{[]string{"ipv4"}, "1.2.3.4.5", "*.5"},
	} {
		rule := Redaction{Preset: c.presets, With: "*"}
		if out, _, ok := edit(t, Config{Redact: []Redaction{rule}}, Line, c.text); !ok || out != c.want {
			t.Errorf("%v of %s: %s, want %s", c.presets, c.text, out, c.want)
		}
		slices.Reverse(rule.Preset)
		if out, _, _ := edit(t, Config{Redact: []Redaction{rule}}, Line, c.text); out != c.want {
			t.Errorf("%v of %s: %s, want %s", rule.Preset, c.text, out, c.want)
		}
	}
}

// TestWithinMember: names within a member are values of it, and comments may hold what was
// a member.
func TestWithinMember(t *testing.T) {
	redact := func(r Redaction) Config { return Config{Redact: []Redaction{r}} }
	sessions := redact(Redaction{Member: "sessions", With: "*"})
	remove := Config{Remove: []string{"p"}}
	for _, c := range []struct {
		c         Config
		rec, want string
		acted     string
	}{
		{sessions, `{"sessions":{"tok-SECRET":{"n":1}},"n":{"n":1}}`, `{"sessions":{"*":{"*":"*"}},"n":{"n":1}}`, "redact_1"},
		{redact(Redaction{Member: "a.b", With: Hash}), `{"a":{"b":[{"x":{}}],"c":{"x":1}}}`, `{"a":{"b":[{"` + hashOf("x") + `":{}}],"c":{"x":1}}}`, "redact_1"},
		{redact(Redaction{Member: "a", Match: "s+", With: "*"}), `{"as":1,"a":{"ss\n\u0073":{"xs":"s"}}}`, `{"as":1,"a":{"*\n*":{"x*":"*"}}}`, "redact_1"},
		{sessions, `{"n":"http://x/*y" /* tok */,"m":[1//tok` + "\n" + `]}`, `{"n":"http://x/*y"  ,"m":[1 ]}`, "redact_1"},
		{sessions, `{"n":{"m":'//"'/**/},"sessions":"s"}//s`, `{"n":{"m":'//"' },"sessions":"*"} `, "redact_1"},
		{sessions, `{"n":"http://x", "m":"/*"}`, `{"n":"http://x", "m":"/*"}`, ""},
		{remove, `{"n":1/* "p":2 */}`, `{"n":1 }`, "remove"},
		{remove, `{/*"p":1*/"p":2,"n":3}`, `{ "n":3}`, "remove"},
		{Config{Rename: map[string]string{"n": "m"}}, `{"n":1/* c */}`, `{"m":1/* c */}`, "rename"},
	} {
		out, acted, ok := edit(t, c.c, Object, c.rec)
		if !ok || out != c.want || strings.Join(acted, " ") != c.acted {
			t.Errorf("%+v of %s: %s %t %v, want %s", c.c, c.rec, out, ok, acted, c.want)
		}
	}
}

// TestNothingToChange: a record that no rule changes is itself, and takes no memory.
func TestNothingToChange(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		c    Config
		rec  string
	}{
		{Object, Config{Redact: []Redaction{{Member: "p", With: "*"}}}, `{"n":"https://x.org/p?q=1","m":{"p":1,"q":"\\"}}`},
		{Parsed, Config{Redact: []Redaction{{Member: "p", With: "*"}}}, `{"p_":1,"m_2":{"p":1,"q":"x"}}`},
		{Row, Config{Redact: []Redaction{{Column: "2", Match: "x", With: "*"}}}, `a,b,c`},
		{Line, Config{Redact: []Redaction{{Preset: Presets(), With: "*"}}}, `the bearer; of 1.2.3 is x@y 2024-05-05 4111`},
	} {
		s, err := New(c.c, c.kind)
		if err != nil {
			t.Fatal(err)
		}
		e, rec := NewEditor(s, c.kind, ','), []byte(c.rec)
		n := testing.AllocsPerRun(10, func() {
			if out, ok := e.Of(rec); !ok || &out[0] != &rec[0] || len(out) != len(rec) {
				t.Fatalf("%s became %s", rec, out)
			}
		})
		if n > 0 {
			t.Errorf("%s: %v allocations", rec, n)
		}
	}
}

// TestShiftedRow: in a row that has another number of fields than the header, or fewer than
// the largest number that a rule has, a rule about a column is about every one.
func TestShiftedRow(t *testing.T) {
	byName := Config{Header: true, Redact: []Redaction{{Column: "user", With: "*"}, {Column: "1", Match: "a", With: "#"}}}
	byNumber := Config{Header: true, Redact: []Redaction{{Column: "2", With: "*"}, {Column: "3", Match: "a", With: "#"}}}
	for _, c := range []struct {
		c                 Config
		header, row, want string
	}{
		{byName, "n,user,m", "a,b,a", "#,*,a"},
		{byName, "n,user,m", "a,b", "*,*"},
		{byName, "n,user,m", "a,b,c,d", "*,*,*,*"},
		{byName, "n,user,m", `a,"b,c`, `*,"*"`},
		{byName, "n,user,m", `"a,b,c`, `"*"`},
		{byName, `"n,m",user`, "a,b", "#,*"},
		{byName, "", "a,b,c", "*,*,*"},
		{byNumber, "", "a,b,a", "a,*,#"},
		{byNumber, "", "a,b,a,a", "a,*,#,a"},
		{byNumber, "", "a,b", "*,*"},
		{byNumber, "", "", ""},
		{Config{Redact: []Redaction{{Match: "a", With: "#"}}}, "", "a", "#"},
	} {
		s, err := New(c.c, Row)
		if err != nil {
			t.Fatal(err)
		}
		e := NewEditor(s, Row, ',')
		if c.header != "" {
			e.SetHeader([]byte(c.header))
		}
		if out, ok := e.Of([]byte(c.row)); !ok || string(out) != c.want {
			t.Errorf("%s behind the header %s: %s, want %s", c.row, c.header, out, c.want)
		}
	}
}

// TestFlatNames: a name that begins with that of a member and a dot is within it.
func TestFlatNames(t *testing.T) {
	for _, c := range []struct {
		c         Config
		kind      Kind
		rec, want string
	}{
		{Config{Redact: []Redaction{{Member: "user", With: "*"}}}, Object, `{"user.email":"x","user.":"y","users.email":"z","user_2.a":1,"x":{"user.a":1}}`, `{"user.email":"*","user.":"*","users.email":"z","user_2.a":1,"x":{"user.a":1}}`},
		{Config{Redact: []Redaction{{Member: "http.user", With: "*"}}}, Object, `{"http.user.name":"x","http":{"user.name":{"a":"y"},"users.n":1}}`, `{"http.user.name":"*","http":{"user.name":{"*":"*"},"users.n":1}}`},
		{Config{Redact: []Redaction{{Member: "user", With: "*"}}}, Parsed, `{"user.email_2":"x"}`, `{"user.email_2":"*"}`},
		{Config{Remove: []string{"user"}}, Object, `{"user.email":1,"user":2,"n":3}`, `{"n":3}`},
		{Config{Rename: map[string]string{"user": "u"}, Add: map[string]string{"a": "x"}}, Object, `{"user.email":1,"a.b":2}`, `{"user.email":1,"a.b":2,"a":"x"}`},
	} {
		if out, _, ok := edit(t, c.c, c.kind, c.rec); !ok || out != c.want {
			t.Errorf("%+v of %s: %s %t, want %s", c.c, c.rec, out, ok, c.want)
		}
	}
}

// TestUnsoundIsRefused: what cannot be taken apart is told, so that it is not sent.
func TestUnsoundIsRefused(t *testing.T) {
	for _, rec := range []string{`{"a":"x"`, `{"a":"x`, `{"a" "x"}`, `{"a":"x"}x`, `["x"]`, `x`, ``, `{"a":"x" "b":1}`, `{"a":[1 x]}`, strings.Repeat(`{"a":`, 600) + "x"} {
		if out, _, ok := edit(t, Config{Redact: []Redaction{{Match: "x?", With: "*"}}}, Object, rec); ok {
			t.Errorf("%.40s is %s", rec, out)
		}
	}
}

func TestMembers(t *testing.T) {
	for _, c := range []struct {
		c         Config
		rec, want string
		acted     string
	}{
		{Config{Remove: []string{"a"}}, `{"a":1,"b":2}`, `{"b":2}`, "remove"},
		{Config{Remove: []string{"a"}}, `{ "a" : 1 , "b" : 2 }`, `{ "b" : 2 }`, "remove"},
		{Config{Remove: []string{"b"}}, `{ "a" : 1 , "b" : 2 }`, `{ "a" : 1 }`, "remove"},
		{Config{Remove: []string{"a", "b"}}, `{ "a" : 1 , "b" : 2 }`, `{ }`, "remove"},
		{Config{Remove: []string{"a", "b"}}, `{"a":1,"b":2,"c":3,"a":4}`, `{"c":3}`, "remove"},
		{Config{Remove: []string{"b", "c"}}, `{"a":1,"b":2,"c":3,"d":4}`, `{"a":1,"d":4}`, "remove"},
		{Config{Remove: []string{"b"}}, `{"a":1}`, `{"a":1}`, ""},
		{Config{Remove: []string{"a.b"}}, `{"a":[{"b":1},{"b":2,"c":"\u0041"}],"a.b":3,"b":4}`, `{"a":[{},{"c":"\u0041"}],"b":4}`, "remove"},
		{Config{Remove: []string{"ä\n"}}, `{"\u00e4\n":1,"b":1e5}`, `{"b":1e5}`, "remove"},
		{Config{Rename: map[string]string{"a.b": "c.d"}}, `{"a":{"b" :1,"x":[1]}}`, `{"a":{"c.d" :1,"x":[1]}}`, "rename"},
		{Config{Rename: map[string]string{"a": "b"}}, `{"a":1,"b":2}`, `{"a":1,"b":2}`, ""},
		{Config{Rename: map[string]string{"a": "b"}, Remove: []string{"b"}}, `{"a":1,"b":2}`, `{"b":1}`, "rename remove"},
		{Config{Rename: map[string]string{"a": "b", "b": "a"}}, `{"a":1,"b":2}`, `{"b":1,"a":2}`, "rename"},
		{Config{Rename: map[string]string{"a": "b", "b": "c"}}, `{"a":1,"b":2,"c":3}`, `{"a":1,"b":2,"c":3}`, ""},
		{Config{Rename: map[string]string{"a": "x", "b": "x"}}, `{"a":1,"b":2}`, `{"x":1,"b":2}`, "rename"},
		{Config{Rename: map[string]string{"a": `"'`}}, `{'a':1}`, `{"\"\u0027":1}`, "rename"},
		{Config{Add: map[string]string{"a": "x\"y"}}, `{}`, `{"a":"x\"y"}`, "add"},
		{Config{Add: map[string]string{"a": "x"}}, `{"b":1 }`, `{"b":1 ,"a":"x"}`, "add"},
		{Config{Add: map[string]string{"a": "x"}}, `{"\u0061":null}`, `{"\u0061":null}`, ""},
		{Config{Add: map[string]string{"a.b": "x", "a.c.d": "y", "a.c.e": "z", "f": "1"}}, `{}`, `{"a":{"b":"x","c":{"d":"y","e":"z"}},"f":"1"}`, "add"},
		{Config{Add: map[string]string{"a.b": "x"}}, `{"a":{"c":1}}`, `{"a":{"c":1,"b":"x"}}`, "add"},
		{Config{Add: map[string]string{"a.b": "x"}}, `{"a":1}`, `{"a":1}`, ""},
		{Config{Add: map[string]string{"a.b": "x"}}, `{"a.b":1}`, `{"a.b":1}`, ""},
		{Config{Add: map[string]string{"a.b": "x"}}, `{"a":{},"a.b":1}`, `{"a":{},"a.b":1}`, ""},
		{Config{Add: map[string]string{"a.b.c": "x"}}, `{"a":[{"b.c":1,"b":{}},{"b":{}}]}`, `{"a":[{"b.c":1,"b":{}},{"b":{"c":"x"}}]}`, "add"},
		{Config{Add: map[string]string{"a": "x"}, Remove: []string{"a"}}, `{"a":1,"b":2}`, `{"b":2,"a":"x"}`, "remove add"},
		{Config{Add: map[string]string{"b": "x"}, Rename: map[string]string{"a": "b"}}, `{"a":1}`, `{"b":1}`, "rename"},
		{Config{Redact: []Redaction{{Member: "a", With: "*"}}, Rename: map[string]string{"a": "b"}}, `{"a":1}`, `{"b":"*"}`, "redact_1 rename"},
	} {
		out, acted, ok := edit(t, c.c, Object, c.rec)
		if !ok || out != c.want || strings.Join(acted, " ") != c.acted {
			t.Errorf("%+v of %s: %s %t %v, want %s %s", c.c, c.rec, out, ok, acted, c.want, c.acted)
		}
	}
}

func TestMistakesOfChanges(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		c    Config
		want string
	}{
		{Object, Config{Redact: []Redaction{{With: "*"}}}, "redact[0]: nothing is named"},
		{Object, Config{Redact: []Redaction{{Match: "(", With: "*"}}}, "redact[0].match: error parsing"},
		{Object, Config{Redact: []Redaction{{Match: "x", Preset: []string{"card"}, With: "*"}}}, "redact[0].preset: match is given too"},
		{Object, Config{Redact: []Redaction{{Preset: []string{"card", "phone"}, With: "*"}}}, `redact[0].preset[1]: "phone" is not a preset; want some of bearer, card, email, ipv4`},
		{Object, Config{Redact: []Redaction{{Column: "1", With: "*"}}}, "redact[0].column: records of this format have no columns"},
		{Row, Config{Redact: []Redaction{{Column: "a", With: "*"}}}, "redact[0].column: not the number of a column; the first is 1, and for a name want header: skip"},
		{Row, Config{Sample: &Sample{Rate: "0.5", By: "a"}}, "sample.by: not the number of a column"},
		{Row, Config{Redact: []Redaction{{Column: "0", With: "*"}}, Header: true}, "redact[0].column: 0 is not a column"},
		{Row, Config{Redact: []Redaction{{Member: "a", With: "*"}}}, "redact[0].member: records of this format have no members"},
		{Line, Config{Redact: []Redaction{{Match: "a", With: " "}}}, "redact[0].with: blank"},
		{Row, Config{Redact: []Redaction{{Column: "1", With: "a\nb"}}}, "redact[0].with: no text of one line"},
		{Object, Config{Redact: []Redaction{{Name: "remove", Match: "a", With: "*"}}}, `redact[0].name: "remove" is counted for something else`},
		{Line, Config{Remove: []string{"a"}}, "remove: records of this format have no members"},
		{Object, Config{Remove: []string{"a."}}, "remove[0]: not a path of a member"},
		{Object, Config{Redact: []Redaction{{Member: "user..email", With: "*"}}}, "redact[0].member: not a path of a member"},
		{Message, Config{Redact: []Redaction{{Member: "a.", With: "*"}}}, "redact[0].member: not a path of a member"},
		{Object, Config{Redact: []Redaction{{Member: ".", Match: "x", With: "*"}}}, "redact[0].member: not a path of a member"},
		{Object, Config{Remove: []string{"a", "a"}}, "remove[1]: it is there already"},
		{Object, Config{Rename: map[string]string{"a": ""}}, "rename.a: missing"},
		{Object, Config{Rename: map[string]string{"a": "b"}, Remove: []string{"a"}}, "rename.a: it is removed too"},
		{Object, Config{Add: map[string]string{"a": "b", "a.b": "c"}}, "add.a.b: it is within a"},
		{Object, Config{Redact: []Redaction{{Member: "a", With: Hash}}, HashKey: []byte("short")}, "redact: with: hash needs a key"},
	} {
		_, err := New(c.c, c.kind)
		var bad *Error
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !errors.As(err, &bad) && c.c.HashKey == nil {
			t.Errorf("%+v: %v, want %s", c.c, err, c.want)
		}
	}
}

// everyValue calls f for each text, and each name, of a value that encoding/json read.
func everyValue(v any, f func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, of := range v {
			f(name)
			everyValue(of, f)
		}
	case []any:
		for _, of := range v {
			everyValue(of, f)
		}
	case string:
		f(v)
	case json.Number:
		f(v.String())
	}
}

// unlike maps every text of a value.
func unlike(v any, f func(string) string) any {
	switch v := v.(type) {
	case map[string]any:
		to := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			to[f(name)] = unlike(v[name], f)
		}
		return to
	case []any:
		to := []any{}
		for _, of := range v {
			to = append(to, unlike(of, f))
		}
		return to
	case string:
		return f(v)
	case json.Number:
		if was := v.String(); f(was) != was {
			return f(was)
		}
	case bool:
		if was := fmt.Sprint(v); f(was) != was {
			return f(was)
		}
	}
	return v
}

func decode(t *testing.T, text []byte) (v any, ok bool) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if !json.Valid(text) || d.Decode(&v) != nil {
		return nil, false
	}
	_, ok = v.(map[string]any)
	return v, ok && utf8.Valid(text)
}

// hasDoubled reports whether an object has a name twice, of which encoding/json keeps one,
// or how deep it is cannot be told.
func hasDoubled(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	var names []map[string]bool
	key := false
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		switch x := tok.(type) {
		case json.Delim:
			switch x {
			case '{':
				names = append(names, map[string]bool{})
				key = true
				continue
			case '[':
				names = append(names, nil)
			default:
				names = names[:len(names)-1]
			}
		case string:
			if n := len(names); key && n > 0 && names[n-1] != nil {
				if names[n-1][x] {
					return true
				}
				names[n-1][x] = true
				key = false
				continue
			}
		}
		key = len(names) > 0 && names[len(names)-1] != nil
	}
}

// FuzzRedactJSON: what encoding/json reads of a record that was redacted is what it reads
// of the record, each text with regexp's ReplaceAllLiteral; a record in which nothing is
// found is the same bytes.
func FuzzRedactJSON(f *testing.F) {
	for _, rec := range []string{
		`{"a":"x secret=1 y","b":["secret=2",{"c":"\u0073ecret=\"3"}],"secret=4":5}`, `{"a":"\ud83d\ude00 secret=\ud83d\ude00x \/","n":-1.5e3,"t":true,"z":null}`,
		`{"a":"\\secret=\\\\","":""}`, ` { "a" : [ ] , "b" : { } } `, `{"a":"secret=\u0020"}`, `{"n":[1,10,100]}`, `{"a":"\ud800secret=\udc00"}`,
	} {
		f.Add([]byte(rec))
	}
	const expression = `secret=\S+|1\d`
	re := regexp.MustCompile(expression)
	set, err := New(Config{Redact: []Redaction{{Match: expression, With: `***"\`}}}, Object)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, rec []byte) {
		v, ok := decode(t, rec)
		if !ok || hasDoubled(rec) {
			return
		}
		found, names := false, map[string]bool{}
		everyValue(v, func(text string) { found = found || re.MatchString(text); names[text] = true })
		want := unlike(v, func(text string) string { return re.ReplaceAllLiteralString(text, `***"\`) })
		e := NewEditor(set, Object, 0)
		out, ok := e.Of(bytes.Clone(rec))
		if !ok {
			if depthOf(v) < mostDepth {
				t.Fatalf("%s is refused", rec)
			}
			return
		}
		if !found && !bytes.Equal(out, rec) {
			t.Fatalf("%s became %s", rec, out)
		}
		if hasDoubled(out) { // two names became one
			return
		}
		got, ok := decode(t, out)
		if a, b := show(t, got), show(t, want); !ok || a != b {
			t.Fatalf("%s became %s: %s, want %s", rec, out, a, b)
		}
	})
}

func depthOf(v any) (deep int) {
	switch v := v.(type) {
	case map[string]any:
		for _, of := range v {
			deep = max(deep, 1+depthOf(of))
		}
	case []any:
		for _, of := range v {
			deep = max(deep, 1+depthOf(of))
		}
	}
	return deep
}

func show(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// FuzzRedactRow: the fields that encoding/csv reads of a row that was redacted are those
// of the row, each with regexp's ReplaceAllLiteral, or its column as told.
func FuzzRedactRow(f *testing.F) {
	for _, row := range []string{`a,b,c`, `"a ""x1"" b",x2,`, "\"l1\nx3\",\"\",x", `x1`, `,x1,"x,1"`} {
		f.Add(row)
	}
	re := regexp.MustCompile(`x\d`)
	set, err := New(Config{Redact: []Redaction{{Match: `x\d`, With: `,"`}, {Column: "3", With: "*"}}}, Row)
	if err != nil {
		f.Fatal(err)
	}
	read := func(row string) []string {
		fields, err := csv.NewReader(strings.NewReader(row)).Read()
		if err != nil {
			return nil
		}
		return fields
	}
	f.Fuzz(func(t *testing.T, row string) {
		want := read(row)
		if want == nil || strings.ContainsAny(row, "\r") || strings.HasSuffix(row, "\n") || strings.HasPrefix(row, "\n") {
			return
		}
		if w := strings.Count(row, "\n"); w > 0 { // more than one row
			if rows, err := csv.NewReader(strings.NewReader(row)).ReadAll(); err != nil || len(rows) != 1 {
				return
			}
		}
		for i := range want {
			want[i] = re.ReplaceAllLiteralString(want[i], `,"`)
			if (i == 2 || len(want) < 3) && want[i] != "" {
				want[i] = "*"
			}
		}
		out, ok := NewEditor(set, Row, ',').Of([]byte(row))
		if got := read(string(out)); !ok || !slices.Equal(got, want) {
			t.Fatalf("%q became %q: %q, want %q", row, out, got, want)
		}
	})
}

// FuzzPresets: what is left of a text has no address that a naive look finds, and no part
// of what must go by another look is outside of what was found.
func FuzzPresets(f *testing.F) {
	for _, text := range []string{
		"a@b.org 1.2.3.4 Bearer x 4111 1111 1111 1111", "1.2.3.4.5.6.7.8", "a@b.cd@e.fg@h.ij", "bearer=bearer: bearer", "4111-1111 1111-11114111111111111111", "999.1.1.1.1",
		"Bearer%20eyJ bearer+x", "bearer token: a|b,c:bearer d", `\"bearer\":\"x\"`, "bearer\u00a0x\u3000y", "bearer%3a%22x;bearer%20bearer%20 y",
		"a%40b.org o'brien@x.org", "a\uff20b.org%40c.de", "'a@b.org'", "a\uff20og%40%40c.de", "%40%40c.de",
		"2024-05-05 4111 1111 1111 1111", "4111 1111 1111 1111@x.org", "a@b.com@c.org 1.2.3.4@x.org", "bearer x:4111 1111 1111 1111", "bear \x00=bearer: \v\xafbe", "BeArer%0BeArer 0",
	} {
		f.Add(text)
	}
	naive := map[string]*regexp.Regexp{
		"email":  regexp.MustCompile(`[A-Za-z0-9._+\-][A-Za-z0-9._+'\-]*(?:@|%40|\x{FF20})[A-Za-z0-9.\-]+\.[A-Za-z]{2,}|[A-Za-z0-9._%+\-]+@[A-Za-z0-9.\-]+\.[A-Za-z]{2,}`),
		"ipv4":   regexp.MustCompile(`(?:^|[^0-9.])(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:$|[^0-9])`),
		"bearer": regexp.MustCompile(`(?i)bearer(?:[\s\v\p{Z}:=+"'\x60\\]|%(?:20|09|0[ad]|2[27b]|3[ad]|5c))+[^\s\v\p{Z}\x{85}"'\x60)\]};<:=+\\%]`),
		"card":   regexp.MustCompile(`(?:^|[^0-9 \-])[2-6](?:[ \-]?[0-9]){12,18}(?:$|[^0-9 \-])`),
	}
	tokens := regexp.MustCompile(`(?i)bearer(?: |\+|%20)+(?:(?:bearer|token):?(?: |\+|%20)+)*([A-Za-z0-9][A-Za-z0-9|:,/]*)`)
	f.Fuzz(func(t *testing.T, text string) {
		together := (&redaction{find: slices.Collect(maps.Values(presets))}).segments(nil, []byte(text))
		for name, find := range presets {
			r := redaction{find: []finder{find}}
			parts := r.segments(nil, []byte(text))
			var left strings.Builder
			at := 0
			for _, s := range parts {
				if s.from < at || s.to <= s.from || s.to > len(text) {
					t.Fatalf("%s of %q: %v", name, text, parts)
				}
				left.WriteString(text[at:s.from])
				left.WriteString("\x00")
				at = s.to
			}
			left.WriteString(text[at:])
			if found := naive[name].FindString(left.String()); found != "" && (name != "card" || luhn(found)) && (name != "bearer" || !strings.Contains(found, "\x00")) {
				t.Fatalf("%s of %q leaves %q, in which is %q", name, text, left.String(), found)
			}
			for _, s := range parts {
				checkCovered(t, "all of "+name, text, together, s.from, s.to)
			}
			if name == "card" {
				for _, s := range naiveCards(text) {
					checkCovered(t, name, text, parts, s.from, s.to)
				}
			}
			if name == "bearer" {
				for _, m := range tokens.FindAllStringSubmatchIndex(text, -1) {
					checkCovered(t, name, text, parts, m[2], m[3])
				}
			}
		}
	})
}

// naiveCards are the cards of a text, also those that overlap: whatever is one by
// expression and check digit.
func naiveCards(text string) (all []segment) {
	card := regexp.MustCompile(`^[2-6](?:[ \-]?[0-9]){12,18}$`)
	for from := range len(text) {
		for to := from + 13; to <= min(from+37, len(text)); to++ {
			inDigits := from > 0 && isDigit(text[from-1]) || to < len(text) && isDigit(text[to])
			if !inDigits && '2' <= text[from] && text[from] <= '6' && card.MatchString(text[from:to]) && luhn(text[from:to]) {
				all = append(all, segment{from, to})
			}
		}
	}
	return all
}

// checkCovered checks that one of some parts has text[from:to].
func checkCovered(t *testing.T, name, text string, parts []segment, from, to int) {
	t.Helper()
	if !slices.ContainsFunc(parts, func(s segment) bool { return s.from <= from && to <= s.to }) {
		t.Fatalf("%s of %q leaves some of %q, %v", name, text, text[from:to], parts)
	}
}

// luhn is the check digit of a card as its definition has it.
func luhn(text string) bool {
	var digits []int
	for _, c := range text {
		if '0' <= c && c <= '9' {
			digits = append(digits, int(c-'0'))
		}
	}
	sum := 0
	for i, d := range digits {
		if (len(digits)-i)%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// FuzzMembers: what encoding/json reads of a record whose members were changed is what it
// reads of the record, with its maps changed; a record that has none of the members is
// the same bytes.
func FuzzMembers(f *testing.F) {
	for _, rec := range []string{
		`{"a":1,"b":{"c":2,"x":3},"d":[{"e":4},{"e":5,"f":6}],"g":{"i":[]}}`, `{ "\u0061" : 1 }`, `{"b.c":1,"b":[{"c":1},{"c":[{}]}],"d.e":2,"g":1}`, `{"x":"a\\","b":{},"a":{"a":1}}`, `{"g.h":1,"g":{}}`, `{"a.x":1,"b.c.x":{},"b":{"c.":1,"cc.x":2}}`,
	} {
		f.Add([]byte(rec))
	}
	set, err := New(Config{Remove: []string{"a", "b.c"}, Rename: map[string]string{"d.e": "f"}, Add: map[string]string{"g.h": "x"}}, Object)
	if err != nil {
		f.Fatal(err)
	}
	var within func(v any, change func(map[string]any))
	within = func(v any, change func(map[string]any)) {
		switch v := v.(type) {
		case map[string]any:
			change(v)
		case []any:
			for _, of := range v {
				within(of, change)
			}
		}
	}
	rename := func(m map[string]any, from, to string) {
		if v, there := m[from]; there && m[to] == nil {
			if _, taken := m[to]; !taken {
				m[to] = v
				delete(m, from)
			}
		}
	}
	f.Fuzz(func(t *testing.T, rec []byte) {
		v, ok := decode(t, rec)
		if !ok || hasDoubled(rec) || depthOf(v) >= mostDepth {
			return
		}
		want := v.(map[string]any)
		remove := func(m map[string]any, member string) {
			maps.DeleteFunc(m, func(name string, _ any) bool { return name == member || strings.HasPrefix(name, member+".") })
		}
		remove(want, "a")
		remove(want, "b.c")
		within(want["b"], func(m map[string]any) { remove(m, "c") })
		rename(want, "d.e", "f")
		within(want["d"], func(m map[string]any) { rename(m, "e", "f") })
		if _, there := want["g.h"]; !there {
			if g, there := want["g"]; !there {
				want["g"] = map[string]any{"h": "x"}
			} else {
				within(g, func(m map[string]any) {
					if _, there := m["h"]; !there {
						m["h"] = "x"
					}
				})
			}
		}
		e := NewEditor(set, Object, 0)
		out, ok := e.Of(bytes.Clone(rec))
		if !ok {
			t.Fatalf("%s is refused", rec)
		}
		if !slices.Contains(e.Acted(), true) && !bytes.Equal(out, rec) {
			t.Fatalf("%s became %s, and no rule acted", rec, out)
		}
		got, _ := decode(t, out)
		if a, b := show(t, got), show(t, want); a != b {
			t.Fatalf("%s became %s, want %s", rec, out, b)
		}
	})
}

// FuzzNothingIsLeft: in no value or name of a record that was redacted, as encoding/json
// reads it, regexp finds what was to go.
func FuzzNothingIsLeft(f *testing.F) {
	for _, rec := range []string{
		`{"a":"x\na@b.org\t","b":"Bearer\tab","c":"a\/b\"c","\u0061@b.org":1}`, `{"a":"a/b\"c \n1.2.3.4\\","b":"\/","c":"bEAREr: \\x"}`, `{"a":"\\na@b.org\\"}`,
		`{"a":"bea\u0072er x","b":"1\u002e2.3.4"}`, `{"bearer\nx":["a\\/b\\\"c"]}`,
		`{"a":"bea\u0072er +x","":"3\u002e2.3.4"}`,
	} {
		f.Add([]byte(rec))
	}
	naive := regexp.MustCompile(`[A-Za-z0-9._%+\-]+@[A-Za-z0-9.\-]+\.[A-Za-z]{2,}|(?:^|[^0-9.])(?:[1-9]?\d\.){3}(?:[1-9]?\d)(?:$|[^0-9])|(?i:bearer)[ \t\n+]+[A-Za-z0-9._~/\-]|a/b"c`) // a + is a space in a form
	set, err := New(Config{Redact: []Redaction{{Preset: []string{"email", "ipv4", "bearer"}, With: "*"}, {Match: `a/b"c`, With: "*"}}}, Object)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, rec []byte) {
		if v, ok := decode(t, rec); !ok || hasDoubled(rec) || depthOf(v) >= mostDepth {
			return
		}
		out, ok := NewEditor(set, Object, 0).Of(bytes.Clone(rec))
		v, sound := decode(t, out)
		if !ok || !sound {
			t.Fatalf("%s became %s", rec, out)
		}
		everyValue(v, func(text string) {
			if found := naive.FindString(text); found != "" {
				t.Fatalf("%s became %s, in which is %q", rec, out, found)
			}
		})
	})
}

// TestRenameAmongMany: how many other members an object has changes nothing of what
// becomes of those that are renamed.
func TestRenameAmongMany(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	var others strings.Builder
	for i := range 2 * fewMembers {
		fmt.Fprintf(&others, `,"other%d":%d`, i, i)
	}
	renamed := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 8))
		c := Config{Rename: map[string]string{}}
		for range 1 + r.IntN(3) {
			c.Rename[names[r.IntN(4)]] = names[r.IntN(4)]
		}
		if r.IntN(3) == 0 {
			c.Add = map[string]string{names[r.IntN(4)]: "x"}
		}
		e := NewEditor(newSet(t, c, Object), Object, 0)
		rec := `{"z":0`
		for i := range r.IntN(6) {
			rec += fmt.Sprintf(`,"%s":%d`, names[r.IntN(4)], i)
		}
		few, ok := e.Of([]byte(rec + "}"))
		want := string(few)
		many, same := e.Of([]byte(rec + others.String() + "}"))
		if got := strings.Replace(string(many), others.String(), "", 1); !ok || !same || got != want {
			t.Fatalf("%v of %s: %s, and among many %s", c, rec, want, got)
		}
		if want != rec+"}" {
			renamed++
		}
	}
	if renamed < 100 {
		t.Errorf("%d are changed", renamed)
	}
}
