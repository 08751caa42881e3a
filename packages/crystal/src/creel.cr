# Applies `--jobs N` (or `-j N`, `-jN`, `--jobs=N`) before the runtime of a program starts.
#
# Crystal reads the number of its workers from CRYSTAL_WORKERS before any line of the program runs.
# Its default is 4 on every machine. A program that requires this file therefore starts itself again
# with that variable. A variable that is already set does not change. Require this file first.
module Creel
  # Returns the number that the arguments ask for.
  def self.jobs(arguments = ARGV) : Int32?
    arguments.each_with_index do |word, i|
      return nil if word == "--"
      text = case word
             when "--jobs", "-j"   then arguments[i + 1]?
             when /\A--jobs=(.*)/  then $1
             when /\A-j(\d+)\z/    then $1
             end
      number = text.try &.to_i?
      return number if number && number > 0
    end
    nil
  end

  # Starts the program again with CRYSTAL_WORKERS, if the variable is not set.
  def self.size_workers
    return if ENV["CRYSTAL_WORKERS"]?
    count = jobs
    path = Process.executable_path
    return unless count && path
    Process.exec(path, ARGV, env: {"CRYSTAL_WORKERS" => count.to_s})
  end
end

Creel.size_workers
