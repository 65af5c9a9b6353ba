package row

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The calendar is the proleptic Gregorian one, in UTC. Years are those of
// ISO 8601: year 0 is 1 BC.

const (
	secondsPerDay = 86400
	nanosPerDay   = secondsPerDay * 1_000_000_000
)

// daysOf returns the days from 1970-01-01 to a date.
func daysOf(year int64, month, day int) int64 {
	if month <= 2 {
		year--
	}
	era := floorDiv(year, 400)
	yearOfEra := year - era*400
	dayOfYear := int64((153*((month+9)%12)+2)/5 + day - 1)
	dayOfEra := yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear
	return era*146097 + dayOfEra - 719468
}

// dateOf is the inverse of daysOf.
func dateOf(days int64) (year int64, month, day int) {
	days += 719468
	era := floorDiv(days, 146097)
	dayOfEra := days - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*dayOfYear + 2) / 153
	day = int(dayOfYear - (153*shifted+2)/5 + 1)
	month = int((shifted+2)%12 + 1)
	year = yearOfEra + era*400
	if month <= 2 {
		year++
	}
	return year, month, day
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func daysInMonth(year int64, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// dayShift is the number of 1970-01-01 in a date value.
const dayShift = 1 << 31

// Date returns the value of a date from the days since 1970-01-01, which must
// fit 32 bits.
func Date(days int64) []byte { return binary.BigEndian.AppendUint32(nil, uint32(days+dayShift)) }

// DateDays returns the days since 1970-01-01 of a date.
func DateDays(v []byte) int64 {
	if len(v) < 4 {
		return 0
	}
	return int64(binary.BigEndian.Uint32(v)) - dayShift
}

// DateOfTimestamp returns the date of a timestamp in milliseconds since 1970, as
// Cassandra converts it: a time of the day before 1970 counts for the next day.
func DateOfTimestamp(millis int64) []byte { return Date(floorDiv(millis, 1000) / secondsPerDay) }

// AddDuration returns a timestamp or date plus a duration, or minus it. Months are
// added first, and the day becomes the last one of its month if that is shorter. A
// duration that is more precise than the type is an *Error.
func (t *Type) AddDuration(v, duration []byte, minus bool) ([]byte, error) {
	months, days, nanos := DurationParts(duration)
	switch {
	case t.Kind == KindDate && nanos != 0:
		return nil, badValue("The duration must have a day precision. Was: %s", Native(KindDuration).Format(duration))
	case nanos%1_000_000 != 0:
		return nil, badValue("The duration must have a millisecond precision. Was: %s", Native(KindDuration).Format(duration))
	}
	if minus {
		months, days, nanos = -months, -days, -nanos
	}
	millis := Integer(v)
	if t.Kind == KindDate {
		millis = DateDays(v) * secondsPerDay * 1000
	}
	millis = addTime(millis, int64(months), int64(days), nanos/1_000_000)
	if t.Kind == KindDate {
		return Date(floorDiv(millis, secondsPerDay*1000)), nil
	}
	return BigInt(millis), nil
}

func addTime(millis, months, days, add int64) int64 {
	const perDay = secondsPerDay * 1000
	if months != 0 {
		day := floorDiv(millis, perDay)
		ofDay := millis - day*perDay
		year, month, dayOfMonth := dateOf(day)
		total := year*12 + int64(month-1) + months
		year = floorDiv(total, 12)
		month = int(total-year*12) + 1
		millis = daysOf(year, month, min(dayOfMonth, daysInMonth(year, month)))*perDay + ofDay
		// Cassandra adds milliseconds after months as a number of 32 bits.
		add = int64(int32(add))
	}
	return millis + days*perDay + add
}

func parseDate(text string) ([]byte, error) {
	if digits := strings.TrimPrefix(text, "-"); digits != "" && strings.Trim(digits, "0123456789") == "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, badLiteral("Unable to make unsigned int (for date) from: '%s'", text)
		}
		return binary.BigEndian.AppendUint32(nil, uint32(n)), nil
	}
	year, month, day, rest, ok := cutISODate(text)
	if !ok || rest != "" || month < 1 || month > 12 || day < 1 || day > daysInMonth(year, month) {
		return nil, badLiteral("Unable to coerce '%s' to a formatted date (long)", text)
	}
	days := daysOf(year, month, day)
	if days < math.MinInt32 {
		return nil, badLiteral("Input date %s is less than min supported date -5877641-06-23T00:00Z[UTC]", text)
	}
	if days > math.MaxInt32 {
		return nil, badLiteral("Input date %s is greater than max supported date +5881580-07-11T00:00Z[UTC]", text)
	}
	return Date(days), nil
}

// cutISODate reads a date of ISO 8601: the year has four digits, or a sign and up
// to ten. A plus needs more than four digits.
func cutISODate(text string) (year int64, month, day int, rest string, ok bool) {
	digits := strings.TrimLeft(text, "+-")
	signs := len(text) - len(digits)
	n := 0
	for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
		n++
	}
	if signs > 1 || n < 4 || n > 9 || signs == 0 && n > 4 || signs == 1 && text[0] == '+' && n == 4 {
		return 0, 0, 0, "", false
	}
	year, _ = strconv.ParseInt(digits[:n], 10, 64)
	if signs == 1 && text[0] == '-' {
		if year == 0 {
			return 0, 0, 0, "", false
		}
		year = -year
	}
	rest = digits[n:]
	if len(rest) < 6 || rest[0] != '-' || rest[3] != '-' {
		return 0, 0, 0, "", false
	}
	month, ok1 := twoDigits(rest[1:3])
	day, ok2 := twoDigits(rest[4:6])
	return year, month, day, rest[6:], ok1 && ok2
}

func twoDigits(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 8)
	return int(n), err == nil
}

// parseTime accepts nanoseconds of the day, or hours, minutes, seconds and up to
// nine decimals.
func parseTime(text string) ([]byte, error) {
	if digits := strings.TrimPrefix(text, "-"); digits != "" && strings.Trim(digits, "0123456789") == "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n >= nanosPerDay {
			return nil, badLiteral("Unable to make long (for time) from: '%s'", text)
		}
		return BigInt(n), nil
	}
	fail := func() ([]byte, error) {
		return nil, badLiteral("(TimeType) Unable to coerce '%s' to a formatted time (long)", text)
	}
	trimmed := strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
	hours, rest, ok1 := strings.Cut(trimmed, ":")
	minutes, seconds, ok2 := strings.Cut(rest, ":")
	seconds, decimals, fraction := strings.Cut(seconds, ".")
	if !ok1 || !ok2 || fraction && (decimals == "" || len(decimals) > 9 || strings.Trim(decimals, "0123456789") != "") {
		return fail()
	}
	total := int64(0)
	for i, part := range []string{hours, minutes, seconds} {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil || n < 0 || n >= []int64{24, 60, 60}[i] {
			return fail()
		}
		total = total*60 + n
	}
	nanos, _ := strconv.ParseInt((decimals + "000000000")[:9], 10, 64)
	return BigInt(total*1_000_000_000 + nanos), nil
}

// parseTimestamp accepts milliseconds, a date, or a date and a time, with an
// optional zone.
func parseTimestamp(text string) ([]byte, error) {
	if digits := strings.TrimPrefix(text, "-"); digits != "" && strings.Trim(digits, "0123456789") == "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, badLiteral("Unable to make long (for date) from: '%s'", text)
		}
		return BigInt(n), nil
	}
	if millis, ok := dateAndTime(text); ok {
		return BigInt(millis), nil
	}
	if millis, ok := dateAndZone(text); ok {
		return BigInt(millis), nil
	}
	return nil, badLiteral("Unable to parse a date/time from '%s'", text)
}

// dateAndZone reads a date of ISO 8601 with an optional zone.
func dateAndZone(text string) (millis int64, ok bool) {
	year, month, day, zone, ok := cutISODate(text)
	if zone == "z" {
		zone = "Z"
	}
	// A year before 1 has no zone, or one of ISO 8601.
	if !ok || year < 1 && zone != "" && zone != "Z" && (len(zone) != 6 || zone[3] != ':') {
		return 0, false
	}
	return instant(year, month, day, 0, zone)
}

// instant adds up a date, the milliseconds of the day and a zone. A day that the
// month does not have is its last day, up to 31.
func instant(year int64, month, day int, ofDay int64, zone string) (millis int64, ok bool) {
	offset, ok := zoneOffset(zone)
	if !ok || month < 1 || month > 12 || day < 1 || day > 31 || year > 290_000_000 || year < -290_000_000 {
		return 0, false
	}
	day = min(day, daysInMonth(year, month))
	return daysOf(year, month, day)*secondsPerDay*1000 + ofDay - offset*1000, true
}

// dateAndTime reads "year-month-day", a T or blank, "hour:minute[:second]" and a
// fraction of up to nine decimals, of which three count. Numbers need no leading
// zeros.
func dateAndTime(text string) (millis int64, ok bool) {
	rest := text
	number := func(end string) (n int64) {
		i := 0
		for i < len(rest) && rest[i] >= '0' && rest[i] <= '9' {
			i++
		}
		n, err := strconv.ParseInt(rest[:i], 10, 64)
		if err != nil || i < len(rest) && end != "" && strings.IndexByte(end, rest[i]) < 0 || i == len(rest) && end != "" {
			ok = false
		}
		rest = rest[i:]
		if end != "" && rest != "" {
			rest = rest[1:]
		}
		return n
	}
	ok = true
	year, month, day := number("-"), number("-"), number("T ")
	hour, minute, second := number(":"), number(""), int64(0)
	if !ok {
		return 0, false
	}
	seconds := strings.HasPrefix(rest, ":")
	if seconds {
		rest = rest[1:]
		second = number("")
	}
	fraction := int64(0)
	if seconds && strings.HasPrefix(rest, ".") {
		n := 1
		for n < len(rest) && n <= 9 && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		fraction, _ = strconv.ParseInt((rest[1:n] + "000")[:3], 10, 64)
		rest = rest[n:]
	}
	midnight := hour == 24 && minute == 0 && second == 0 && fraction == 0
	if !ok || year < 1 || hour > 23 && !midnight || minute > 59 || second > 59 || month > 12 || day > 31 {
		return 0, false
	}
	return instant(year, int(month), int(day), ((hour*60+minute)*60+second)*1000+fraction, rest)
}

// zoneOffset returns the seconds east of UTC of a zone: none, Z, an offset with
// hours and optional minutes, or UTC or GMT after a blank.
func zoneOffset(zone string) (seconds int64, ok bool) {
	name, blank := strings.CutPrefix(zone, " ")
	switch {
	case zone == "" || name == "Z":
		return 0, true
	case blank && (strings.EqualFold(name, "UTC") || strings.EqualFold(name, "GMT") || strings.EqualFold(name, "UT")):
		return 0, true
	case name == "" || name[0] != '+' && name[0] != '-':
		return 0, false
	}
	sign := int64(1)
	if name[0] == '-' {
		sign = -1
	}
	hours, minutes := name[1:], "00"
	switch {
	case len(hours) == 4:
		hours, minutes = hours[:2], hours[2:]
	case len(hours) == 5 && hours[2] == ':':
		hours, minutes = hours[:2], hours[3:]
	case len(hours) != 2:
		return 0, false
	}
	h, ok1 := twoDigits(hours)
	m, ok2 := twoDigits(minutes)
	if !ok1 || !ok2 || m > 59 || h*60+m > 18*60 {
		return 0, false
	}
	return sign * int64(h*60+m) * 60, true
}

// appendDate appends a date of ISO 8601.
func appendDate(dst []byte, days int64) []byte {
	year, month, day := dateOf(days)
	switch {
	case year > 9999:
		dst = append(dst, '+')
	case year < 0:
		dst, year = append(dst, '-'), -year
	}
	dst = append(appendPadded(dst, year, 4), '-')
	dst = append(appendPadded(dst, int64(month), 2), '-')
	return appendPadded(dst, int64(day), 2)
}

// appendTimestamp appends a timestamp in UTC with milliseconds. Separator is
// between date and time. The year is that of its era, as Cassandra prints it.
func appendTimestamp(dst []byte, millis int64, separator byte) []byte {
	days := floorDiv(millis, secondsPerDay*1000)
	ofDay := millis - days*secondsPerDay*1000
	year, month, day := dateOf(days)
	if year < 1 {
		year = 1 - year
	}
	if year > 9999 {
		dst = append(dst, '+')
	}
	dst = append(appendPadded(dst, year, 4), '-')
	dst = append(appendPadded(dst, int64(month), 2), '-')
	dst = append(appendPadded(dst, int64(day), 2), separator)
	dst = append(appendPadded(dst, ofDay/3_600_000, 2), ':')
	dst = append(appendPadded(dst, ofDay/60_000%60, 2), ':')
	dst = append(appendPadded(dst, ofDay/1000%60, 2), '.')
	return append(appendPadded(dst, ofDay%1000, 3), 'Z')
}

// appendTime appends hours, minutes, seconds and nine decimals.
func appendTime(dst []byte, nanos int64) []byte {
	seconds := nanos / 1_000_000_000
	dst = append(appendPadded(dst, seconds/3600, 2), ':')
	dst = append(appendPadded(dst, seconds/60%60, 2), ':')
	dst = append(appendPadded(dst, seconds%60, 2), '.')
	return appendPadded(dst, nanos%1_000_000_000, 9)
}

func appendPadded(dst []byte, n int64, width int) []byte {
	text := strconv.FormatInt(n, 10)
	for i := len(text); i < width; i++ {
		dst = append(dst, '0')
	}
	return append(dst, text...)
}

// unit is a unit of a duration: its symbol, its name in messages, and how many
// months, days or nanoseconds it has.
type unit struct {
	symbol, name string
	field        int
	size         int64
}

var units = []unit{
	{"y", "years", 0, 12},
	{"mo", "months", 0, 1},
	{"w", "weeks", 1, 7},
	{"d", "days", 1, 1},
	{"h", "hours", 2, 3_600_000_000_000},
	{"m", "minutes", 2, 60_000_000_000},
	{"s", "seconds", 2, 1_000_000_000},
	{"ms", "milliseconds", 2, 1_000_000},
	{"us", "microseconds", 2, 1000},
	{"ns", "nanoseconds", 2, 1},
}

// durationBuilder adds up the parts of a duration.
type durationBuilder struct {
	source string
	fields [3]int64
	last   int // index of the last unit, or -1
}

var durationLimits = [3]int64{math.MaxInt32, math.MaxInt32, math.MaxInt64}

func (b *durationBuilder) fail() error {
	return badDuration("Unable to convert '%s' to a duration", b.source)
}

// add adds digits of the unit with an index.
func (b *durationBuilder) add(digits string, index int) error {
	u := units[index]
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil:
		return b.fail()
	case index == b.last:
		return badDuration("Invalid duration. The %s are specified multiple times", u.name)
	case index < b.last:
		return badDuration("Invalid duration. The %s should be after %s", units[b.last].name, u.name)
	}
	b.last = index
	limit := durationLimits[u.field]
	if n > (limit-b.fields[u.field])/u.size {
		return badDuration("Invalid duration. The total number of %s must be less or equal to %d",
			[]string{"months", "days", "nanoseconds"}[u.field], math.MaxInt32)
	}
	b.fields[u.field] += n * u.size
	return nil
}

// cutDigits returns the leading digits of a text and the rest.
func cutDigits(text string) (digits, rest string) {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return text[:n], text[n:]
}

// parseDuration accepts numbers with units, the formats of ISO 8601 with
// designators or weeks, and the alternative format. A minus negates all of it.
func parseDuration(text string) ([]byte, error) {
	source, negative := strings.CutPrefix(text, "-")
	b := &durationBuilder{source: source, last: -1}
	var err error
	switch {
	case !strings.HasPrefix(source, "P"):
		err = b.standard(source)
	case strings.HasSuffix(source, "W"):
		if digits, rest := cutDigits(source[1:]); digits == "" || rest != "W" {
			err = b.fail()
		} else {
			err = b.add(digits, 2)
		}
	case strings.Contains(source, "-"):
		err = b.alternative(source)
	default:
		err = b.designators(source)
	}
	if err != nil {
		return nil, err
	}
	months, days, nanos := b.fields[0], b.fields[1], b.fields[2]
	if negative {
		months, days, nanos = -months, -days, -nanos
	}
	return appendDuration(nil, months, days, nanos), nil
}

// Duration returns the value of a duration. The numbers must have the same sign.
func Duration(months, days int32, nanos int64) []byte {
	return appendDuration(nil, int64(months), int64(days), nanos)
}

// DurationParts returns the numbers of a duration, and zeros for the empty value.
func DurationParts(v []byte) (months, days int32, nanos int64) {
	m, d, n, _ := cutDuration(v)
	return int32(m), int32(d), n
}

func (b *durationBuilder) standard(source string) error {
	if source == "" {
		return b.fail()
	}
	for source != "" {
		digits, rest := cutDigits(source)
		symbol := strings.ToLower(rest[:len(rest)-len(strings.TrimLeft(rest, "yYmMoOwWdDhHsSuUµnN"))])
		symbol = strings.Replace(symbol, "µ", "u", 1)
		index := -1
		for i, u := range units {
			if u.symbol == symbol {
				index = i
			}
		}
		if digits == "" || index < 0 {
			return b.fail()
		}
		if err := b.add(digits, index); err != nil {
			return err
		}
		source = strings.TrimLeft(rest, "yYmMoOwWdDhHsSuUµnN")
	}
	return nil
}

func (b *durationBuilder) designators(source string) error {
	rest, ofTime := source[1:], false
	for rest != "" {
		if rest[0] == 'T' && !ofTime {
			rest, ofTime = rest[1:], true
			continue
		}
		digits, after := cutDigits(rest)
		if digits == "" || after == "" {
			return b.fail()
		}
		letters, indexes := "YMD", []int{0, 1, 3}
		if ofTime {
			letters, indexes = "HMS", []int{4, 5, 6}
		}
		at := strings.IndexByte(letters, after[0])
		if at < 0 || indexes[at] <= b.last {
			return b.fail()
		}
		if err := b.add(digits, indexes[at]); err != nil {
			return err
		}
		rest = after[1:]
	}
	return nil
}

// alternative reads P0001-02-03T04:05:06.
func (b *durationBuilder) alternative(source string) error {
	const form = "P0000-00-00T00:00:00"
	if len(source) != len(form) {
		return b.fail()
	}
	for i := range form {
		if digit := source[i] >= '0' && source[i] <= '9'; digit != (form[i] == '0') || !digit && source[i] != form[i] {
			return b.fail()
		}
	}
	for i, part := range []string{source[1:5], source[6:8], source[9:11], source[12:14], source[15:17], source[18:20]} {
		if err := b.add(part, []int{0, 1, 3, 4, 5, 6}[i]); err != nil {
			return err
		}
	}
	return nil
}

// appendDurationText appends a duration in units, such as 1mo2d3h.
func appendDurationText(dst []byte, months, days, nanos int64) []byte {
	if months < 0 || days < 0 || nanos < 0 {
		dst = append(dst, '-')
	}
	rest := [3]uint64{magnitude(months), magnitude(days), magnitude(nanos)}
	for _, u := range units {
		if n := rest[u.field] / uint64(u.size); n > 0 && u.symbol != "w" {
			dst = append(strconv.AppendUint(dst, n, 10), u.symbol...)
			rest[u.field] %= uint64(u.size)
		}
	}
	return dst
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// badDuration returns the error of a text of a duration, which Apache Cassandra reports
// without the column or function for which it reads the text.
func badDuration(format string, args ...any) error {
	return &Error{Reason: BadDuration, Text: fmt.Sprintf(format, args...)}
}
