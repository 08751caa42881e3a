# A chain of fibers. Prints the ns per pass, the number of passes, and the memory in KiB before the
# first pass and at its peak.
def chain(length)
  last = Channel(Int32).new
  left = last
  length.times do
    right = Channel(Int32).new
    link(left, right)
    left = right
  end
  left.send(0)
  raise "the chain is broken" unless last.receive == length
end

def link(left, right)
  spawn { left.send(right.receive + 1) }
end

def kib(name)
  line = File.read_lines("/proc/self/status").find(&.starts_with?(name))
  line ? line.gsub(/\D/, "") : "0"
end

def repeated(length, time)
  count = 0
  begun = Time.monotonic
  loop do
    chain(length)
    count += 1
    taken = Time.monotonic - begun
    return {count, taken.total_nanoseconds / count} if taken >= time
  end
end

length = ARGV[1].to_i
before = kib("VmRSS:")
warmed, _ = repeated(length, ARGV[3].to_i.microseconds)
counted, ns = repeated(length, ARGV[4].to_i.microseconds)
puts "#{ns} #{warmed + counted} #{before} #{kib("VmHWM:")}"
