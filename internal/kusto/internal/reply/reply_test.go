package reply

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestWebPagesAreToldInFewWords(t *testing.T) {
	f := func(body, want string) {
		t.Helper()
		if got, isPage := PageWords([]byte(body), "hunter2"); got != want || isPage != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", body, got, isPage, want)
		}
	}
	f("", "")
	f("{}", "")
	f("Bad request: <b>", "")
	f("<html><head><title>404\r\n Not &amp; Found</title></head><body>words</body></html>", "a web page: 404 Not & Found")
	f("\ufeff \n<!DOCTYPE html><TITLE lang=en>Sign in</TITLE>", "a web page: Sign in")
	f("<html><head><title></title><style>p{}</style></head><body><h1>Access</h1><script>x()</script>denied</body>", "a web page: Access denied")
	f("<p>cut in the mid<!-- never ended", "a web page: cut in the mid")
	f("<p>an end <a href='", "a web page: an end")
	f("<html>", "a web page without words")
	f("<title>you sent hunter2\x1b[31m\u202e</title>", `a web page: you sent [secret]\x1b[31m\u202e`)
	f("<title>"+strings.Repeat("x", 5000)+"</title>", "a web page: "+strings.Repeat("x", maxPageWords)+"…")
}

func TestMostTellingCode(t *testing.T) {
	f := func(body, want string) {
		t.Helper()
		if got := Parse([]byte(body), "Logs.App").Code; got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	f(`{"error":{"code":"BadRequest","innererror":{"code":"Deep","innererror":{"@errorCode":"Stream_WrongNumberOfFields"}}}}`, "Stream_WrongNumberOfFields")
	f(`{"error":{"code":"BadRequest","@type":"A.B.EntityNotFoundException"}}`, "EntityNotFoundException")
	f(`{"error":{"code":"SYN0002"}}`, "SYN0002")
	f(`{"error":{"code":17,"@message":"failed: Stream_ClosingQuoteMissing"}}`, "Stream_ClosingQuoteMissing")
	f(`{"code":"BadRequest_EntityNotFound"}`, "BadRequest_EntityNotFound")
	f(`{"error":null}`, "")
	f(``, "")
	f(`words BadRequest_InvalidBlob words`, "BadRequest_InvalidBlob")
}

func TestMessageIsOneBoundedPrintableLine(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := Printable(in, 12); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	f("plain", "plain")
	f("a\nb\tc", `a\nb\tc`)
	f("\x1b[31mred", `\x1b[31mred`)
	f("\u202Eevil", `\u202eevil`)
	f("\xff\xfe", `\xff\xfe`)
	f("a\"b`c", "a\"b`c")
	f("tëxt €", "tëxt €")
	f("0123456789ab", "0123456789ab")
	f("0123456789abc", "0123456789ab…")
	f("01234567890€", "01234567890…")
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := func(value string, want time.Duration) {
		t.Helper()
		if got := RetryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
	f("", 0)
	f("0", 0)
	f(" 12 ", 12*time.Second)
	f("301", MaxRetryAfter)
	f("9223372036854775807", MaxRetryAfter)
	f("99999999999999999999", 0)
	f("-5", 0)
	f("1.5", 0)
	f("soon", 0)
	f("Fri, 02 Jan 2026 03:04:35 GMT", 30*time.Second)
	f("Fri, 02 Jan 2026 03:04:00 GMT", 0)
	f("Fri, 02 Jan 2099 03:04:00 GMT", MaxRetryAfter)
}
