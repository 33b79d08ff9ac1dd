package rules

import "bytes"

// A finder returns where the first text of a kind is that begins at from or behind it;
// start is -1 where there is none. Text before from is not part of it.
type finder func(text []byte, from int) (start, end int)

// presets are the finders that have names. Each finds rather too much than too little.
var presets = map[string]finder{"email": findEmail, "ipv4": findIPv4, "bearer": findBearer, "card": findCard}

// hasHint reports whether a record may hold what the finder of a name finds in one of its
// values, where no character of the record is written as \u. What email, ipv4 and card
// find has no character that needs an escape.
func hasHint(name string, rec []byte) bool {
	if name == "bearer" {
		return indexFold(rec, "bearer") >= 0
	}
	start, _ := presets[name](rec, 0)
	return start >= 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isLocal reports whether c can be before the @ of an address.
func isLocal(c byte) bool {
	return isLetter(c) || isDigit(c) || c >= 0x80 || c == '.' || c == '_' || c == '%' || c == '+' || c == '-'
}

// isDomain reports whether c can be behind the @ of an address.
func isDomain(c byte) bool { return isLetter(c) || isDigit(c) || c >= 0x80 || c == '-' || c == '.' }

// findEmail finds an address whose domain has a dot and ends in two letters or more.
func findEmail(text []byte, from int) (start, end int) {
	for at := from; ; at++ {
		n := bytes.IndexByte(text[at:], '@')
		if n < 0 {
			return -1, 0
		}
		at += n
		start = at
		for start > from && isLocal(text[start-1]) {
			start--
		}
		if start == at {
			continue
		}
		i := at + 1
		for end = -1; i < len(text) && isDomain(text[i]); i++ {
			if text[i] != '.' || i == at+1 {
				continue
			}
			last := i + 1
			for last < len(text) && (isLetter(text[last]) || text[last] >= 0x80) {
				last++
			}
			if last-i > 2 {
				end = last
			}
		}
		if end >= 0 {
			return start, end
		}
	}
}

// findIPv4 finds four numbers up to 255 with dots between them, no digit before or
// behind.
func findIPv4(text []byte, from int) (start, end int) {
	for dot := from; ; dot++ {
		n := bytes.IndexByte(text[dot:], '.')
		if n < 0 {
			return -1, 0
		}
		dot += n
		start = dot
		for start > from && isDigit(text[start-1]) {
			start--
		}
		if start > 0 && isDigit(text[start-1]) { // what is before from is used up
			continue
		}
		if end = behindIPv4(text, start); end > 0 {
			return start, end
		}
	}
}

// behindIPv4 is the index behind the address that begins at i; 0: none does.
func behindIPv4(text []byte, i int) int {
	for part := range 4 {
		if part > 0 {
			if i == len(text) || text[i] != '.' {
				return 0
			}
			i++
		}
		value, digits := 0, 0
		for i < len(text) && isDigit(text[i]) {
			if value, digits = 10*value+int(text[i]-'0'), digits+1; digits > 3 {
				return 0
			}
			i++
		}
		if digits == 0 || value > 255 {
			return 0
		}
	}
	return i
}

// findBearer finds what follows the word bearer, in any letter case, behind signs that
// part the two.
func findBearer(text []byte, from int) (start, end int) {
	const word = "bearer"
	for i := from; ; i++ {
		n := indexFold(text[i:], word)
		if n < 0 {
			return -1, 0
		}
		i += n
		start = i + len(word)
		for start < len(text) && bytes.IndexByte([]byte(" \t\r\n:=\"'"), text[start]) >= 0 {
			start++
		}
		end = start
		for end < len(text) && isToken(text[end]) {
			end++
		}
		if start > i+len(word) && end > start {
			return start, end
		}
	}
}

// isToken reports whether c can be in a token.
func isToken(c byte) bool {
	return isLetter(c) || isDigit(c) || c >= 0x80 || bytes.IndexByte([]byte("-._~+/=%"), c) >= 0
}

// indexFold is where a word of small letters begins, in any letter case; -1: nowhere.
func indexFold(text []byte, word string) int {
	last := len(word) - 1
	for i := last; i < len(text); {
		c := text[i] | 0x20
		if c == word[last] && bytes.EqualFold(text[i-last:i+1], []byte(word)) {
			return i - last
		}
		// The next place where c could be a letter of the word before its last.
		step := 1
		for step <= last && word[last-step] != c {
			step++
		}
		i += step
	}
	return -1
}

// A card has so many digits.
const (
	leastCard = 13
	mostCard  = 19
)

// findCard finds the longest number of a payment card: 13 to 19 digits whose check
// digit is right and whose first is 2 to 6, with a space or a hyphen between any two, no
// digit before or behind.
func findCard(text []byte, from int) (start, end int) {
	for i := from; i+leastCard <= len(text); {
		// Whatever begins from i on up to skip has it within.
		if skip := i + leastCard - 1; !isDigit(text[skip]) && text[skip] != ' ' && text[skip] != '-' {
			i = skip + 1
			continue
		}
		if '2' <= text[i] && text[i] <= '6' && (i == 0 || !isDigit(text[i-1])) {
			if end = behindCard(text, i); end > 0 {
				return i, end
			}
		}
		i++
	}
	return -1, 0
}

// behindCard is the index behind the longest number of a card that begins at i; 0: none
// does.
func behindCard(text []byte, i int) (end int) {
	sum, doubled, digits := 0, 0, 0 // doubled is sum with the other half of the digits doubled
	for ; i < len(text) && digits < mostCard; i++ {
		c := text[i]
		if !isDigit(c) {
			if c != ' ' && c != '-' || !isDigit(text[i-1]) {
				break
			}
			continue
		}
		v := int(c - '0')
		twice := 2 * v
		if twice > 9 {
			twice -= 9
		}
		// The last digit is not doubled: what is doubled changes with each digit.
		sum, doubled = doubled+v, sum+twice
		digits++
		if digits >= leastCard && sum%10 == 0 && (i+1 == len(text) || !isDigit(text[i+1])) {
			end = i + 1
		}
	}
	return end
}
