# Sizes a program's workers before its runtime starts.
#
# The number is that of `--jobs N` (or `-j N`, `-jN`, `--jobs=N`). Without such an argument, it is
# the CPU budget, which the C library computes: the affinity mask, cpusets and CPU quotas, with the
# hyper-threads of a core counted once.
#
# Crystal reads the number of its workers from CRYSTAL_WORKERS before any line of the program runs.
# Its default is 4 on every machine. A program that requires this file therefore starts itself again
# with that variable. A variable that is already set does not change. Require this file first.
@[Link(ldflags: "`pkg-config --libs creel 2> /dev/null || printf %s -lcreel`")]
lib LibCreel
  fun creel_workers : UInt32
end

module Creel
  # The largest number of workers. Crystal's runtime creates all of them at its start, and crashes
  # if the system has no memory for their stacks.
  WORKERS_MAX = 512

  # Returns the number of usable cores, with quotas rounded down. It is at least 1.
  def self.workers : Int32
    LibCreel.creel_workers.to_i32
  end

  # Returns the number that the arguments ask for. Raises an ArgumentError if it is too large.
  def self.jobs(arguments = ARGV) : Int32?
    arguments.each_with_index do |word, i|
      return nil if word == "--"
      text = case word
             when "--jobs", "-j"   then arguments[i + 1]?
             when /\A--jobs=(.*)/  then $1
             when /\A-j(\d+)\z/    then $1
             end
      number = text.try &.to_i64?
      next unless number && number > 0
      if number > WORKERS_MAX
        raise ArgumentError.new("--jobs #{number} is above the largest number of workers, #{WORKERS_MAX}")
      end
      return number.to_i32
    end
    nil
  end

  # Starts the program again with CRYSTAL_WORKERS, if the variable is not set.
  def self.size_workers
    return if ENV["CRYSTAL_WORKERS"]?
    count = jobs || Math.min(workers, WORKERS_MAX)
    path = Process.executable_path
    return unless path
    Process.exec(path, ARGV, env: {"CRYSTAL_WORKERS" => count.to_s})
  rescue error : ArgumentError
    abort "creel: #{error.message}"
  end
end

Creel.size_workers
